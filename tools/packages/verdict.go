package packages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"osaurus-sandbox/internal/printable"
)

// Class classifies a failed install.
type Class string

const (
	Unknown    Class = "other"
	Missing    Class = "not_found"     // no such package or version
	NoNetwork  Class = "no_network"    // a server could not be reached
	NoSpace    Class = "no_space"      // the disk or the agent's quota is full
	Conflict   Class = "conflict"      // conflicts with installed packages
	Locked     Class = "locked"        // another program is installing
	Broken     Class = "broken"        // an earlier install was interrupted
	Stale      Class = "stale_index"   // the index lists files that the server lacks
	Signature  Class = "signature"     // a wrong, missing or untrusted signature
	Build      Class = "build_failed"  // compilation failed
	Script     Class = "script_failed" // a script of the package failed
	OutOfTime  Class = "timeout"
	OutOfRoom  Class = "out_of_memory" // the room's limit of memory or processes
	Unequipped Class = "no_manager"    // the manager is not installed
)

// sign is a text in a manager's output that identifies a cause.
type sign struct {
	text  string
	class Class
	// again means that a second attempt may succeed.
	again bool
}

// The first match counts, so causes come before their effects: without a network, no package is
// found.
var signs = map[Manager][]sign{
	APK: {
		{"unable to lock database", Locked, true},
		{"no space left on device", NoSpace, false}, {"quota exceeded", NoSpace, false},
		{"temporary error (try again later)", NoNetwork, true}, {"transient error (try again later)", NoNetwork, true},
		{"network connection aborted", NoNetwork, true}, {"operation timed out", NoNetwork, true},
		{"could not connect to server", NoNetwork, false}, {"dns lookup error", NoNetwork, false}, {"dns error", NoNetwork, false}, {"network error", NoNetwork, false}, {"host is unreachable", NoNetwork, false},
		{"bad signature", Signature, false}, {"untrusted signature", Signature, false}, {"bad archive", Signature, false}, {"bad checksum", Signature, false},
		{"package mentioned in index not found", Stale, true},
		{"script exited with error", Script, false},
		{"trying to overwrite", Conflict, false},
		{"no such package", Missing, false}, {"does not exist", Missing, false},
		{"unable to select packages", Conflict, false},
		{"error: ", Unknown, false},
		{" error; ", Broken, true}, {" errors; ", Broken, true}, // no reason given: earlier errors
	},
	APT: {
		{"could not get lock", Locked, true}, {"frontend lock", Locked, true}, {"unable to lock", Locked, true}, {"locked by another process", Locked, true},
		{"dpkg was interrupted", Broken, true}, {"--fix-broken install", Broken, true},
		{"no space left on device", NoSpace, false}, {"quota exceeded", NoSpace, false}, {"don't have enough free space", NoSpace, false},
		{"temporary failure resolving", NoNetwork, true}, {"connection timed out", NoNetwork, true},
		{"could not resolve", NoNetwork, false}, {"could not connect", NoNetwork, false}, {"unable to connect", NoNetwork, false}, {"network is unreachable", NoNetwork, false},
		{"no_pubkey", Signature, false}, {"is not signed", Signature, false}, {"could not be authenticated", Signature, false}, {"unauthenticated packages", Signature, false},
		{"hash sum mismatch", Stale, true}, {"unexpected size", Stale, true}, {"unable to fetch some archives", Stale, true},
		{"trying to overwrite", Conflict, false}, {"unmet dependencies", Conflict, false}, {"held broken packages", Conflict, false},
		{"unable to locate package", Missing, true}, {"no installation candidate", Missing, true}, {"was not found", Missing, true},
		{"returned error exit status", Script, false}, {"sub-process /usr/bin/dpkg returned an error", Script, false},
	},
	Pip: {
		{"no space left on device", NoSpace, false}, {"quota exceeded", NoSpace, false},
		{"no module named pip", Broken, true}, {"no module named 'pip", Broken, true},
		{"readtimeouterror", NoNetwork, true}, {"remotedisconnected", NoNetwork, true}, {"temporary failure in name resolution", NoNetwork, true},
		{"newconnectionerror", NoNetwork, false}, {"connecttimeouterror", NoNetwork, false}, {"network is unreachable", NoNetwork, false}, {"max retries exceeded", NoNetwork, false},
		{"do not match the hashes", Signature, false},
		{"could not install packages due to an oserror", Unknown, true}, {"distutils installed project", Conflict, true},
		{"resolutionimpossible", Conflict, false}, {"conflicting dependencies", Conflict, false},
		{"could not find a version that satisfies", Missing, false}, {"no matching distribution found", Missing, false},
		{"failed building wheel", Build, false}, {"failed to build", Build, false}, {"subprocess-exited-with-error", Build, false}, {"metadata-generation-failed", Build, false},
	},
	NPM: {
		{"enospc", NoSpace, false}, {"edquot", NoSpace, false},
		{`tracker "idealtree" already exists`, Broken, true}, {`tracker "idealtree" doesn't exist`, Broken, true},
		{"eexist: file already exists", Broken, true}, {"enotempty", Broken, true}, {"elocked", Locked, true},
		{"eai_again", NoNetwork, true}, {"econnreset", NoNetwork, true}, {"etimedout", NoNetwork, true}, {"err_socket_timeout", NoNetwork, true},
		{"enotfound", NoNetwork, false}, {"econnrefused", NoNetwork, false}, {"enetunreach", NoNetwork, false}, {"ehostunreach", NoNetwork, false},
		{"eintegrity", Signature, true}, // or the cache is damaged
		{"e404", Missing, false}, {"etarget", Missing, false}, {"einvalidpackagename", Missing, false},
		{"eresolve", Conflict, false}, {"epeerinvalid", Conflict, false}, {"ebadplatform", Conflict, false}, {"ebadengine", Conflict, false},
		{"gyp err!", Build, false}, {"elifecycle", Build, false}, {"command failed", Build, false},
	},
}

// Judge classifies the output of a failed install, and reports whether a second attempt may succeed.
func (m Manager) Judge(output string) (c Class, again bool) {
	output = strings.ToLower(output)
	for _, s := range signs[m] {
		if strings.Contains(output, s.text) {
			return s.class, s.again
		}
	}
	return Unknown, false
}

var unresolved = regexp.MustCompile(`(?i)name resolution|resolving|could not resolve|dns (lookup )?error|enotfound|eai_again`)

// Unresolved reports whether an output says that a host name could not be resolved.
func Unresolved(output string) bool { return unresolved.MatchString(output) }

// complaint matches an error line.
var complaint = regexp.MustCompile(`(?m)^(ERROR: |E: |error: |npm (ERR!|error) |dpkg: error ).*$`)

// maxComplaint bounds a complaint in bytes.
const maxComplaint = 200

// Complaint returns the first error line of an output, or "".
func Complaint(output string) string {
	return printable.First(strings.TrimSpace(complaint.FindString(output)), maxComplaint)
}

// Advice says what to do about a failure.
func (c Class) Advice() string {
	return map[Class]string{
		Missing:    "Check its name and the available versions.",
		NoNetwork:  "Try again once the network is there.",
		NoSpace:    "Delete files that are no longer needed.",
		Conflict:   "Ask for versions that go together.",
		Locked:     "Try again when the other program is done.",
		Broken:     "Tell a person: resetting the agent's room gives it a fresh one.",
		Stale:      "Try again later: the server is being changed.",
		Signature:  "Do not use it; tell a person.",
		Build:      "See the output for what it lacks: often a compiler or headers; get them with sandbox_install.",
		Script:     "Read what its script wrote in the output.",
		OutOfTime:  "Try again, with fewer packages in a call: it may wait for a slow server.",
		OutOfRoom:  "Ask for fewer packages in a call, or a person for a higher limit.",
		Unequipped: "Install it first.",
		Unknown:    "See the output.",
	}[c]
}

var (
	// installedLine matches a line in which apk or apt names a package and its version.
	installedLine = regexp.MustCompile(`(?m)^(?:(?:\(\d+/\d+\) (?:Installing|Upgrading|Replacing|Reinstalling|Downgrading) |Setting up )(\S+)|(\S+) is already the newest version) \(([^()\n]+)\)`)
	// recommendedList matches apt's list of recommended packages that it did not install.
	recommendedList = regexp.MustCompile(`(?m)^Recommended packages:\n((?: .*\n)+)`)
)

const (
	// maxSummary is how many packages a summary names.
	maxSummary = 12
	// lastLines is how many lines of an output are shown if it names no versions.
	lastLines = 3
)

// Summary lists what was installed, requested packages first, and the recommended packages that
// apt left out.
func Summary(output string, asked []Spec) (text string, recommended []string) {
	var first, rest []string
	for _, m := range installedLine.FindAllStringSubmatch(output, -1) {
		name, _, _ := strings.Cut(m[1]+m[2], ":")
		entry := name + " " + m[3]
		if slices.ContainsFunc(asked, func(s Spec) bool { return bare.FindString(string(s)) == name }) {
			first = append(first, entry)
		} else {
			rest = append(rest, entry)
		}
	}
	all := append(first, rest...)
	text = strings.Join(all[:min(len(all), maxSummary)], ", ")
	switch {
	case len(all) > maxSummary:
		text += fmt.Sprintf(" and %d more", len(all)-maxSummary)
	case len(all) == 0:
		text = printable.LastLines(strings.TrimSpace(output), lastLines)
	}
	if m := recommendedList.FindStringSubmatch(output); m != nil {
		list := strings.Join(strings.Fields(m[1]), "\n")
		recommended = strings.Split(strings.ReplaceAll(list, "\n|\n", " | "), "\n")
	}
	return text, recommended[:min(len(recommended), maxSummary)]
}

// bare matches the part of a Spec before its version, tag or architecture.
var bare = regexp.MustCompile(`^[A-Za-z0-9._+-]+`)
