package autostart

import (
	"os"
	"path/filepath"
	"strings"

	"osaurus-sandbox/config"
)

// systemd is the user instance of systemd. TimeoutStopSec is longer than the daemon
// takes to stop a guest.
var systemd = manager{
	folder: func() (string, error) {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "systemd", "user"), err
	},
	name: "LABEL.service",
	text: `[Unit]
Description=Osaurus Sandbox
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
ExecStart="%[2]s" serve --quiet
Environment="` + config.HomeVariable + `=%[3]s"
Restart=on-failure
RestartSec=5
KillMode=mixed
TimeoutStopSec=60

[Install]
WantedBy=default.target
`,
	// A percent sign begins a specifier. A dollar sign stands for itself in a
	// program's path and in Environment.
	quote:   strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace,
	reach:   "systemctl --user show-environment",
	running: "systemctl --user is-active --quiet LABEL.service",
	load:    []string{"systemctl --user daemon-reload", "systemctl --user enable LABEL.service", "systemctl --user restart LABEL.service"},
	unload:  []string{"systemctl --user disable --now LABEL.service"},
	advice:  "Log in as that user, not with su or sudo: the service needs a session of its own. On a server: loginctl enable-linger",
}
