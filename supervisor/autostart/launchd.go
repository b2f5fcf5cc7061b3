package autostart

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// launchd is the manager of macOS, with the user's own agents.
type launchd struct{}

// domain begins the label of an agent: by custom it is a name turned round.
const domain = "dev."

func (launchd) file(label string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "find folder of agents", "", err).Advise("Set HOME.")
	}
	return filepath.Join(home, "Library", "LaunchAgents", domain+label+".plist"), nil
}

// describe sets ExitTimeOut longer than the daemon takes to stop a guest.
func (launchd) describe(s Service) []byte {
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>%s</string>
	<key>ProgramArguments</key>
	<array>
		<string>%s</string>
		<string>serve</string>
		<string>--quiet</string>
	</array>
	<key>EnvironmentVariables</key>
	<dict>
		<key>%s</key>
		<string>%s</string>
	</dict>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>10</integer>
	<key>ExitTimeOut</key>
	<integer>60</integer>
	<key>ProcessType</key>
	<string>Interactive</string>
</dict>
</plist>
`, escape(domain+s.label()), escape(s.program), config.HomeVariable, escape(string(s.home)))
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// target returns the launchd domain of the current user.
func (launchd) target() string { return fmt.Sprintf("gui/%d", os.Getuid()) }

func (l launchd) reach() []string { return []string{"launchctl", "print", l.target()} }

func (l launchd) load(_, file string) [][]string {
	return [][]string{{"launchctl", "bootstrap", l.target(), file}}
}

func (l launchd) unload(label, _ string) [][]string {
	return [][]string{{"launchctl", "bootout", l.target() + "/" + domain + label}}
}

func (l launchd) running(label string) []string {
	return []string{"launchctl", "print", l.target() + "/" + domain + label}
}
