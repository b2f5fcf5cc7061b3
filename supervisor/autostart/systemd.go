package autostart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// systemd is the manager of most Linux systems, the user's own instance of it.
type systemd struct{}

func (systemd) file(label string) (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "find folder of user units", "", err).Advise("Set HOME.")
	}
	return filepath.Join(dir, "systemd", "user", label+".service"), nil
}

// describe sets TimeoutStopSec longer than the daemon takes to stop a guest.
func (systemd) describe(s Service) []byte {
	return fmt.Appendf(nil, `[Unit]
Description=Osaurus Sandbox
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
ExecStart=%s serve --quiet
Environment=%s
Restart=on-failure
RestartSec=5
KillMode=mixed
TimeoutStopSec=60

[Install]
WantedBy=default.target
`, systemdQuote(s.program), systemdQuote(config.HomeVariable+"="+string(s.home)))
}

// systemdQuote writes a word as systemd reads it. A percent sign would begin a
// specifier. A dollar sign stands for itself in a program's path and in
// Environment.
func systemdQuote(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(word) + `"`
}

func (systemd) reach() []string { return []string{"systemctl", "--user", "show-environment"} }

func (systemd) load(label, _ string) [][]string {
	unit := label + ".service"
	return [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", unit}, {"systemctl", "--user", "restart", unit}}
}

func (systemd) unload(label, _ string) [][]string {
	return [][]string{{"systemctl", "--user", "disable", "--now", label + ".service"}}
}

func (systemd) running(label string) []string {
	return []string{"systemctl", "--user", "is-active", "--quiet", label + ".service"}
}
