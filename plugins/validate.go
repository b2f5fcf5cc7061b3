package plugins

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// Validate lists what is wrong with a recipe. Lines and columns are unknown.
func Validate(r Recipe) []Finding {
	v := &validator{}
	v.about(r)
	v.files(r.Files)
	v.dependencies(r.Dependencies)
	v.tools(r)
	v.secrets(r.Secrets)
	v.permissions(r.Permissions)
	v.command("$.setup", r.Setup)
	if r.Daemon != nil {
		v.daemon(*r.Daemon)
	}
	v.events(r.Events)
	v.advise(r)
	return v.findings
}

type validator struct{ findings []Finding }

// refuse adds a fault if the condition holds.
func (v *validator) refuse(wrong bool, path string, rule Rule, fix, format string, args ...any) {
	if wrong {
		v.findings = append(v.findings, *refusal(path, rule, fix, format, args...))
	}
}

// warn adds a warning if the condition holds.
func (v *validator) warn(doubtful bool, path string, rule Rule, fix, format string, args ...any) {
	if doubtful {
		f := refusal(path, rule, fix, format, args...)
		f.Severity = Warning
		v.findings = append(v.findings, *f)
	}
}

// error adds the error of a name's parser.
func (v *validator) error(path string, rule Rule, err error) {
	v.refuse(err != nil, path, rule, fault.AdviceOf(err), "%v", err)
}

// size refuses more than most bytes.
func (v *validator) size(path string, n, most int, fix string) {
	v.refuse(n > most, path, "size", fix, "%d bytes are more than %d", n, most)
}

// count checks a list's length and reports whether it is in range.
func (v *validator) count(path string, n, most int) bool {
	v.refuse(n > most, path, "size", "Make two plugins of it.", "%d are more than %d", n, most)
	return n <= most
}

func (v *validator) about(r Recipe) {
	_, err := r.ID()
	v.refuse(r.Name == "", "$.name", "required", `Add "name": what the plugin is called.`, "is missing")
	if r.Name != "" {
		v.error("$.name", "name", err)
	}
	v.description("$.description", r.Description, "what the plugin is for")
	v.line("$.version", r.Version)
	v.line("$.author", r.Author)
	v.line("$.source", r.Source)
	u, err := url.Parse(r.Source)
	v.warn(err != nil || r.Source != "" && u.Scheme != "https" && u.Scheme != "http", "$.source", "source", "Write the address of its home page.", "is not a web address")
}

func (v *validator) description(path, text, what string) {
	v.refuse(strings.TrimSpace(text) == "", path, "required", "Say here "+what+": a model chooses by it.", "is missing")
	v.size(path, len(text), MaxDescription, "Shorten it; long texts belong in a file.")
	v.prose(path, text)
}

// prose checks a text of several lines that people and models read.
func (v *validator) prose(path, text string) {
	control := strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) })
	v.refuse(control, path, "control-character", "Remove them: terminals obey some.", "has control characters")
	v.seen(path, text)
}

// seen refuses text that models read and people cannot see.
func (v *validator) seen(path, text string) {
	v.refuse(hidden(text), path, "hidden-character", "Remove them: people do not see what they say, or see it in another order.", "has hidden characters")
}

// hidden reports whether a text has invisible characters, which could hide whole sentences, or
// characters that change the reading order. Joiners and variation selectors are allowed after a
// visible character, since some scripts and emoji need them.
func hidden(text string) bool {
	const picture, plain = '\ufe0f', '\ufe0e'
	const join, apart = '\u200d', '\u200c'
	var before rune
	for _, r := range text {
		switch r {
		case picture, plain:
			if !visible(before) {
				return true
			}
		case join, apart:
			if !visible(before) && before != picture && before != plain {
				return true
			}
		default:
			if ignored(r) {
				return true
			}
		}
		before = r
	}
	return false
}

// visible reports whether a character alone is visible.
func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !ignored(r) }

// ignored reports characters that are not drawn, or that end a line or paragraph unnoticed.
func ignored(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r) // signs around numbers
}

// line checks a text of one line.
func (v *validator) line(path, text string) {
	v.size(path, len(text), MaxText, "Shorten it.")
	v.refuse(strings.ContainsFunc(text, unicode.IsControl), path, "control-character", "Write it on one line, without control characters.", "has control characters")
	v.seen(path, text)
}

// dependencyText matches a package of apk or apt, perhaps with a version. It matches no option.
var dependencyText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._-]*([=<>~]{1,2}[A-Za-z0-9][A-Za-z0-9+._:~-]*)?$`)

func (v *validator) dependencies(list []Dependency) {
	const path = "$.dependencies"
	if !v.count(path, len(list), MaxList) {
		return
	}
	for i, d := range list {
		v.refuse(len(d) > MaxText || !dependencyText.MatchString(string(d)), item(path, i), "dependency",
			`Name one package, perhaps with its version: "ripgrep", "nodejs=20.1".`, "%q is not a package", brief(string(d)))
	}
	duplicates(v, path, list)
}

func (v *validator) secrets(list []config.SecretName) {
	const path = "$.secrets"
	if !v.count(path, len(list), MaxList) {
		return
	}
	for i, s := range list {
		_, err := config.ParseSecretName(string(s))
		v.error(item(path, i), "secret", err)
		v.refuse(err == nil && reservedVariable(string(s)), item(path, i), "secret", "Choose another name.", "%s would change how programs run", s)
	}
	duplicates(v, path, list)
}

// duplicates warns of repeated items.
func duplicates[T ~string](v *validator, path string, list []T) {
	for i, s := range list {
		v.warn(slices.Index(list, s) < i, item(path, i), "duplicate", "Remove one of the two.", "%q is there twice", brief(string(s)))
	}
}

func (v *validator) permissions(p Permissions) {
	const path = "$.permissions.network"
	domains := p.Network.Domains()
	if !v.count(path, len(domains), MaxList) {
		return
	}
	for _, d := range domains {
		v.refuse(!IsDomain(d), path, "network", `Write "outbound", "none", or exact names of hosts with commas between them: "api.example.com,example.org".`,
			"%q is not the name of a host", brief(d))
	}
}

// command checks an optional shell command.
func (v *validator) command(path, text string) {
	v.size(path, len(text), MaxCommand, "Put the script into a file of the plugin, and run that.")
	v.refuse(strings.ContainsRune(text, 0), path, "control-character", "Remove it: arguments cannot hold one.", "has a NUL character")
}

func (v *validator) needCommand(path, text string) {
	v.refuse(strings.TrimSpace(text) == "", path, "required", "Write the shell command to run.", "is missing")
	v.command(path, text)
}

var variableText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (v *validator) daemon(d Daemon) {
	v.needCommand("$.daemon.command", d.Command)
	if !v.count("$.daemon.env", len(d.Env), MaxList) {
		return
	}
	for _, name := range sortedKeys(d.Env) {
		path := below("$.daemon.env", name)
		v.refuse(len(name) > MaxText || !variableText.MatchString(name) || reservedVariable(name), path, "variable",
			"Choose another name: letters, digits and underscores, and none that changes how programs run.", "%q cannot be set", brief(name))
		v.command(path, d.Env[name])
	}
}

// reservedVariable reports whether plugins may not set a variable: it decides which programs run,
// or the sandbox sets it.
func reservedVariable(name string) bool {
	switch name {
	case "PATH", "HOME", "SHELL", "USER", "LOGNAME", "IFS", "ENV", "BASH_ENV", "PYTHONPATH", "PYTHONHOME", "NODE_OPTIONS", "VIRTUAL_ENV":
		return true
	}
	return slices.ContainsFunc([]string{"LD_", "DYLD_", "OSAURUS_", "PARAM_"}, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

func (v *validator) events(e Events) {
	const subscribe, emit = "$.events.subscribe", "$.events.emit"
	if v.count(subscribe, len(e.Subscribe), MaxList) {
		for i, s := range e.Subscribe {
			path := item(subscribe, i)
			v.topics(path, s.Topic)
			v.command(below(path, "run"), s.Run)
			v.timeout(below(path, "timeout"), s.Timeout)
			v.warn(s.Run == "", path, "no-handler", `Write an object: {"topic": "…", "run": "the command for each event"}.`, "such events are ignored: there is no command to run")
		}
	}
	if v.count(emit, len(e.Emit), MaxList) {
		for i, t := range e.Emit {
			v.topics(item(emit, i), t)
		}
	}
}

func (v *validator) topics(path string, t bridge.Topics) {
	_, err := bridge.ParseTopics(string(t))
	v.refuse(err != nil, path, "topic", `Write a topic ("rss.new_item"), or the prefix of several ("rss.*").`, "%q is not a topic", brief(string(t)))
}

func (v *validator) timeout(path string, s Seconds) {
	most := Seconds(MaxTimeout / time.Second)
	v.refuse(s < 0 || s > most, path, "timeout", fmt.Sprintf("Write at most %d seconds; use a daemon for longer work.", most), "%d seconds is out of range", s)
}
