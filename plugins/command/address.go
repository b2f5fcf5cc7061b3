package command

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var (
	// The unknown may be part of the scheme: what comes after it is none the less a host.
	urlText = regexp.MustCompile(`(?i)([a-z\x00][a-z0-9+.\x00-]*):([/\\]+)`)
	// Programs take one slash, three, or a backslash for these.
	webScheme = regexp.MustCompile(`(?i)^([a-z]+\+)*(https?|ftps?|sftp|wss?|git|ssh|scp|rsync)$`)
	halfKnown = regexp.MustCompile(`(?i)\b(https?|ftps?|wss?|git|ssh):/?\x00`)
	// Bash itself opens connections where it is told to redirect there.
	deviceText = regexp.MustCompile(`/dev/(?:tcp|udp)/([^/\s]*)`)
	hostText   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?$`)
	portText   = regexp.MustCompile(`:[0-9]*$`)
	numberText = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*$`)
)

// urls finds the addresses in a text, wherever in it they stand.
func (f *Found) urls(text string) {
	for _, at := range urlText.FindAllStringSubmatchIndex(text, -1) {
		scheme, slashes := strings.ToLower(text[at[2]:at[3]]), text[at[4]:at[5]]
		if strings.HasSuffix(scheme, "file") || !webScheme.MatchString(scheme) && slashes != "//" {
			continue
		}
		rest := text[at[1]:]
		end := strings.IndexAny(rest, "/?#\"'`<>\\ \t\r\n")
		if end < 0 {
			end = len(rest)
		}
		if strings.HasPrefix(rest[end:], `\`) && !slices.Contains([]string{`\n`, `\r`, `\t`, `\"`, `\'`}, rest[end:min(end+2, len(rest))]) {
			f.unclear("a backslash in an address is read in more than one way")
		}
		f.authority(rest[:end])
	}
	if halfKnown.MatchString(text) {
		f.unclear("a part of an address is known only when the command runs")
	}
	for _, m := range deviceText.FindAllStringSubmatch(text, -1) {
		f.host(m[1])
	}
}

// authority takes the host out of user@host:port.
func (f *Found) authority(text string) {
	if !strings.HasPrefix(text, "[") {
		text = strings.TrimRight(text, ").,;:!]}")
	}
	if strings.Count(text, "@") > 1 {
		f.unclear("an address with two @ is read in more than one way")
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		if strings.ContainsRune(text[:at], unknown) {
			f.unclear("what stands before the @ of an address is known only when the command runs")
		}
		text = text[at+1:]
	}
	if v6, is := strings.CutPrefix(text, "["); is {
		v6, _, _ = strings.Cut(v6, "]")
		f.host(v6)
		return
	}
	f.host(portText.ReplaceAllString(text, ""))
}

// host adds a host by its name or address. What may be read as another than it looks like is unclear.
func (f *Found) host(text string) {
	text = strings.TrimRight(strings.ToLower(text), ".")
	_, notAddress := netip.ParseAddr(text)
	switch {
	case text == "":
		return
	case strings.ContainsRune(text, unknown):
		f.unclear("a host is known only when the command runs")
		return
	case notAddress != nil && (!hostText.MatchString(text) || numberText.MatchString(text)):
		f.unclear("a host is written in a way that is read in more than one way")
	}
	if len(f.Hosts) == maxHosts {
		f.unclear("it names too many hosts")
	} else if !slices.Contains(f.Hosts, text) {
		f.Hosts = append(f.Hosts, text)
	}
}

func (f *Found) unclear(why string) {
	if f.Unclear == "" {
		f.Unclear = why
	}
}

// remote finds the host in host:path, as scp, rsync and git have it.
func (f *Found) remote(text string) {
	before, _, is := strings.Cut(text, ":")
	if is && before != "" && !strings.Contains(before, "/") && !strings.HasPrefix(text[len(before):], "://") {
		f.authority(before)
	}
}

var domainText = regexp.MustCompile(`(?i)^([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9](:[0-9]+)?(/.*)?$`)

// bare adds a word that looks as a host does, and not as a file. Some endings of files are those of hosts too.
func (f *Found) bare(text string) {
	name, _, _ := strings.Cut(text, "/")
	ending := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	if addr, err := netip.ParseAddr(name); err == nil {
		f.host(addr.String())
	} else if domainText.MatchString(text) && !slices.Contains(fileEndings(), ending) {
		f.authority(name)
	}
}

// fileEndings are those of files that are no country's and no registry's.
func fileEndings() []string {
	return []string{"bz2", "cfg", "conf", "css", "csv", "db", "gif", "gz", "html", "ini", "jpeg", "jpg", "js", "json", "jsonl", "lock", "log", "parquet",
		"pdf", "png", "sql", "sqlite", "svg", "tar", "toml", "ts", "tsv", "txt", "wav", "whl", "xlsx", "xml", "xz", "yaml", "yml"}
}
