package command

import (
	"regexp"
	"strings"
)

// form is how a program is told of hosts.
type form int

const (
	other   form = iota // nothing is known of it
	quiet               // its words are no hosts: files, packages, texts
	wrapper             // it runs what stands after it
	shell               // it runs commands
	coder               // it runs code of another language
	fetcher             // its arguments are hosts
	login               // its first argument is a host
	copier              // its arguments may be host:path
)

func formOf(program string) form {
	switch program {
	case "echo", "printf", "cd", "mkdir", "rmdir", "rm", "cp", "mv", "ln", "touch", "chmod", "cat", "ls", "test", "[", "true", "false", "export", "which", "type", "hash", "grep",
		"rg", "head", "tail", "sort", "uniq", "wc", "tr", "cut", "jq", "tar", "gzip", "gunzip", "unzip", "zip", "sleep", "set", "shift", "exit", "return", "wait", "read",
		"pip", "pip3", "npm", "apk", "apt", "apt-get", "cargo", "uv", "yarn", "pnpm", "sha256sum", "sqlite3", "osaurus-host":
		return quiet
	case "env", "nohup", "timeout", "nice", "ionice", "stdbuf", "sudo", "doas", "exec", "command", "builtin", "time", "setsid", "xargs", "busybox", "find", "strace", "watch", "parallel",
		"chroot", "flock", "script", "unshare", "npx", "uvx":
		return wrapper
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "eval", "trap", "alias", "su", "source", ".":
		return shell
	case "node", "nodejs", "deno", "bun", "perl", "ruby", "php", "lua", "luajit", "Rscript", "awk", "gawk", "mawk":
		return coder
	case "curl", "wget", "http", "https", "xh", "ftp", "lftp", "telnet", "nc", "ncat", "netcat", "socat", "ping", "dig", "nslookup", "host", "drill", "traceroute", "aria2c", "axel",
		"lynx", "w3m", "links", "whois", "nmap":
		return fetcher
	case "ssh", "sftp", "mosh", "autossh":
		return login
	case "git", "scp", "rsync", "hg", "svn":
		return copier
	}
	if pythonName.MatchString(program) {
		return coder
	}
	return other
}

var (
	pythonName  = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)
	proxyOption = regexp.MustCompile(`^--?[a-z-]*proxy$`)
	userAtHost  = regexp.MustCompile(`^[A-Za-z0-9._-]+@[^@/]+\.[^@/]+$`)
	assignText  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// programUnknown is said where a word decides what runs, and is itself unknown.
const programUnknown = "which program runs is known only then"

// program reads a call of a program, by its form.
func (r *reader) program(argv, stdin []string) {
	name, args := base(argv[0]), argv[1:]
	if strings.ContainsAny(name, unknownText+"{*?[") && name != "[" && name != "[[" {
		r.unclear(programUnknown)
		return
	}
	switch formOf(name) {
	case quiet:
		for _, arg := range args { // git@host:path is a package's source too
			if before, _, is := strings.Cut(arg, ":"); is && userAtHost.MatchString(before) {
				r.authority(before)
			}
		}
	case wrapper:
		r.wrapper(name, args, stdin)
	case shell:
		r.shell(name, args, stdin)
	case coder:
		r.coder(name, args, stdin)
	case fetcher:
		r.fetcher(name, args)
	case login:
		r.login(name, args)
	case copier:
		r.copier(name, args)
	case other:
		r.mayRun(args, stdin)
	}
}

// options reads what is the same for every program: addresses, and whom to go through.
func (r *reader) options(args []string) {
	for i, arg := range args {
		r.urls(arg)
		if option, value, joined := strings.Cut(arg, "="); proxyOption.MatchString(option) {
			if !joined && i+1 < len(args) {
				value = args[i+1]
			}
			if !strings.Contains(value, "://") {
				r.authority(value)
			}
		}
	}
}

// mayRun looks for a program that another runs of which nothing is known: the first word that is one. Where there
// is none, words that look as hosts do count.
func (r *reader) mayRun(args, stdin []string) {
	for i, arg := range args {
		if form := formOf(base(arg)); form != other && form != quiet && arg != "." { // the folder
			r.runs(args[i:], stdin)
			return
		}
	}
	r.bares(args)
}

// bares adds the words, and the values of variables, that look as hosts do.
func (r *reader) bares(args []string) {
	for _, arg := range args {
		if assignText.MatchString(arg) {
			_, arg, _ = strings.Cut(arg, "=")
		}
		r.bare(arg)
	}
}

// shell reads what a shell is told to run.
func (r *reader) shell(name string, args, stdin []string) {
	switch name {
	case "eval":
		r.nest(strings.Join(args, " "))
	case "trap":
		if len(args) > 1 {
			r.nest(args[0])
		}
	case "alias":
		for _, arg := range args {
			_, value, _ := strings.Cut(arg, "=")
			r.nest(value)
		}
	case "source", ".":
		if len(args) > 0 {
			r.script(args[0])
		}
	default:
		r.interpreter(name, args, stdin)
	}
}

// script is a file that is run. What is in it is not read.
func (r *reader) script(path string) {
	if strings.ContainsRune(path, unknown) || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
		r.unclear("which file it runs is known only then")
	}
}

// interpreter reads sh -c and what is like it.
func (r *reader) interpreter(name string, args, stdin []string) {
	told := false // what to run
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch short := strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--"); {
		case arg == "--version", arg == "--help":
			told = true
		case short && strings.Contains(arg, "c"), arg == "--command":
			if i+1 < len(args) {
				i++
				r.nest(args[i])
			}
			told = true
		case short && strings.ContainsAny(arg, "oO"), arg == "--rcfile", arg == "--init-file":
			i++ // its value
		case !short && !strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "+") && !told && name != "su":
			r.script(arg)
			told = true
		}
	}
	if told {
		return
	}
	if len(stdin) == 0 {
		r.unclear("a shell reads what it runs from another program")
	}
	for _, text := range stdin {
		r.nest(text)
	}
}

// nest reads a command within a command.
func (r *reader) nest(text string) {
	if strings.ContainsRune(text, unknown) {
		r.unclear("a part of a command is known only when it runs")
		r.urls(text)
		return
	}
	r.command(text, r.nested-1)
}
