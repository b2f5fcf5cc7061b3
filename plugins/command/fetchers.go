package command

import (
	"slices"
	"strings"
)

// valued are the one-letter options of a program that take a value: what follows is no host. Of what is not here
// the value counts as a host, which refuses too much rather than too little.
func valued(program string) string {
	switch program {
	case "curl":
		return "AbcCdDeEFHmoPQrTtuUwXyYz"
	case "wget":
		return "OoaPtTwQUARDIXl"
	case "ssh", "sftp", "autossh", "mosh":
		return "bcDEeFIiLlmOopPQRSWwB"
	case "scp", "rsync":
		return "cFiloPSTfBM"
	case "nc", "ncat", "netcat":
		return "ipqswWX"
	case "ping":
		return "ciIlmMpQsStTwW"
	case "git":
		return "CbomudsX"
	}
	return ""
}

// longValued are the same for options of many letters.
func longValued(program string) []string {
	switch program {
	case "curl":
		return []string{"output", "header", "data", "data-raw", "data-binary", "data-urlencode", "json", "form", "form-string", "request", "user", "user-agent", "max-time", "connect-timeout",
			"retry", "retry-delay", "write-out", "cookie", "cookie-jar", "cert", "key", "cacert", "range", "referer", "upload-file", "output-dir", "limit-rate", "dump-header"}
	case "wget":
		return []string{"output-document", "output-file", "directory-prefix", "header", "user-agent", "tries", "timeout", "post-data", "method", "body-data", "user", "password"}
	case "rsync":
		return []string{"exclude", "include", "files-from", "log-file", "bwlimit", "timeout"}
	case "git":
		return []string{"branch", "depth", "origin", "message", "author"}
	}
	return nil
}

// hiding are options after which a program goes where its words do not say.
func hiding(program string) []string {
	switch program {
	case "curl":
		return []string{"-K", "--config", "--resolve", "--connect-to", "--dns-servers", "--doh-url", "--variable", "--expand-url", "--netrc-file"}
	case "wget":
		return []string{"-i", "--input-file", "-e", "--execute", "--config", "--use-askpass"}
	case "ssh", "sftp", "scp", "autossh", "mosh":
		return []string{"-o", "-F", "-J", "-W", "-S", "-D", "-w", "--ssh"}
	case "rsync":
		return []string{"-e", "--rsh", "--rsync-path"}
	case "git":
		return []string{"-c", "--config", "--config-env", "--exec-path", "--upload-pack", "-u", "--receive-pack", "--template", "--reference"}
	}
	return nil
}

// operands are what of a program's arguments is no option and no option's value. An option that hides where the
// program goes is unclear.
func (r *reader) operands(program string, args []string) []string {
	var operands []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return append(operands, args[i+1:]...)
		case !strings.HasPrefix(arg, "-") || arg == "-":
			operands = append(operands, arg)
			continue
		}
		name, _, joined := strings.Cut(arg, "=")
		if strings.HasPrefix(arg, "--") {
			if slices.Contains(hiding(program), name) {
				r.unclear(program + " " + name + " has it go where its words do not say")
			}
			if strings.ContainsRune(name, unknown) {
				r.unclear("an option of " + program + " is known only when the command runs")
			}
			if !joined && slices.Contains(longValued(program), name[2:]) {
				i++
			}
			continue
		}
		for at, letter := range arg[1:] {
			if letter == unknown {
				r.unclear("an option of " + program + " is known only when the command runs")
			}
			if slices.Contains(hiding(program), "-"+string(letter)) {
				r.unclear(program + " -" + string(letter) + " has it go where its words do not say")
			}
			if strings.ContainsRune(valued(program), letter) {
				if at+2 == len(arg) { // the value is the next word
					i++
				}
				break
			}
		}
	}
	return operands
}

// fetcher counts every operand as a host.
func (r *reader) fetcher(program string, args []string) {
	if program == "socat" {
		r.unclear("socat's addresses can be anything")
	}
	for _, operand := range r.operands(program, args) {
		switch {
		case urlText.MatchString(operand): // options has seen to it
		case program == "dig" && strings.HasPrefix(operand, "+"), isPort(operand) && slices.Contains([]string{"nc", "ncat", "netcat", "telnet", "ftp"}, program):
		default:
			operand = strings.TrimLeft(operand, `/\@`)
			if end := strings.IndexAny(operand, `/\?#`); end >= 0 {
				operand = operand[:end]
			}
			r.authority(operand)
		}
	}
}

// isPort reports what a program takes for the port of the host that stands before it.
func isPort(text string) bool {
	return len(text) <= 5 && strings.Trim(text, "0123456789") == "" && text != ""
}

// login counts the first operand as a host: what stands after it runs there.
func (r *reader) login(program string, args []string) {
	operands := r.operands(program, args)
	if len(operands) == 0 || urlText.MatchString(operands[0]) {
		return
	}
	host, _, _ := strings.Cut(operands[0], ":")
	r.authority(host)
}

// local are git's commands that go nowhere.
func local() []string {
	return []string{"add", "blame", "branch", "cat-file", "checkout", "commit", "describe", "diff", "grep", "init", "log", "ls-files", "merge", "rebase", "reset", "restore", "rev-list",
		"rev-parse", "shortlog", "show", "stash", "status", "switch", "tag"}
}

// copier counts host:path, and what git has as the name of a repository.
func (r *reader) copier(program string, args []string) {
	operands := r.operands(program, args)
	if program == "git" && len(operands) > 0 && slices.Contains(local(), operands[0]) {
		return
	}
	for _, operand := range operands {
		switch {
		case strings.Contains(operand, "::"): // git's ext::, and rsync's daemons
			if program == "git" {
				r.unclear("git runs programs that addresses name")
			}
			r.remote(operand)
		case strings.ContainsRune(operand, unknown):
			r.unclear("what " + program + " is told is known only when the command runs")
		default:
			r.remote(operand)
		}
	}
}
