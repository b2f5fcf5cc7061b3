package command

import (
	"regexp"
	"strings"
)

var (
	// reach are words by which code of any language reaches the network or another program.
	reach = regexp.MustCompile(`(?i)socket|urllib|\bhttp|requests|aiohttp|httpx|ftplib|smtplib|telnet|paramiko|asyncio|subprocess|system|popen|exec|spawn|\beval|fetch|require|import\s*\(|__|importlib|net::|lwp|open-uri|curl|wget|getline|/inet|ctypes|codecs|base64|marshal|pickle|child_process|Deno|Bun|backtick|qx`)
	// made are ways by which code makes a text that does not stand in it.
	made = regexp.MustCompile("(?i)[+%]|\\.format|\\bf[\"']|join|concat|chr|char|decode|unhex|bytes|\\[::|\\\\x|\\\\u|\\\\[0-7]|`|\\$\\{|replace|revers|environ|env\\b|argv|stdin|input|getattr|globals|pack|split|\\.\\.|sprintf|translate|lower|upper|strip|slice")
)

// coder reads code that an interpreter is given on the command line. A file that it is given is not read.
func (r *reader) coder(name string, args, stdin []string) {
	letters := codeLetters(name)
	if strings.HasSuffix(name, "awk") {
		for _, arg := range args {
			r.code(arg)
		}
		return
	}
	read := false // whether it has been told what to run
	for i := 0; i < len(args); i++ {
		arg := args[i]
		option, value, joined := strings.Cut(arg, "=")
		switch {
		case option == "--eval" || option == "--print" || option == "eval" && (name == "deno" || name == "bun"):
			if !joined && i+1 < len(args) {
				i++
				value = args[i]
			}
			r.code(value)
			read = true
		case arg == "-m" && pythonName.MatchString(name):
			if i+1 < len(args) {
				r.program(args[i+1:], stdin)
			}
			return
		case arg == "--version" || arg == "-V" || arg == "--help" || arg == "-h" || arg == "-v":
			read = true
		case arg == "-": // standard input
		case strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--"):
			if at := strings.IndexAny(arg[1:], letters); at >= 0 {
				r.code(arg[at+2:])
				if i+1 < len(args) { // which is looked at as an option too
					r.code(args[i+1])
				}
				read = true
			}
		case strings.HasPrefix(arg, "--"):
		case read:
			r.bare(arg) // what the code is given
		default:
			r.script(arg)
			read = true
		}
	}
	if read {
		return
	}
	if len(stdin) == 0 {
		r.unclear(name + " reads what it runs from another program")
	}
	for _, text := range stdin {
		r.code(text)
	}
}

// codeLetters are an interpreter's options after which code stands.
func codeLetters(name string) string {
	switch {
	case formOf(name) == shell, pythonName.MatchString(name):
		return "c"
	case strings.HasSuffix(name, "awk"):
		return "" // where it has one, it is a file
	}
	return "eEpr"
}

// code reads a text in another language: the hosts that stand in it, if it could not make others.
func (r *reader) code(text string) {
	if strings.ContainsRune(text, unknown) {
		r.unclear("a part of a program is known only when it runs")
	}
	r.urls(text)
	if !reach.MatchString(text) {
		return
	}
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune("\"'` \t\n", c) }) {
		r.bare(word)
	}
	if made.MatchString(text) {
		r.unclear("code that reaches out makes texts that do not stand in it")
	}
}
