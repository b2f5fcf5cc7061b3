package autostart

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"

	"osaurus-sandbox/config"
)

// launchd is the service manager of macOS. ExitTimeOut is longer than the daemon takes
// to stop a guest. bootout answers before the job is gone, and until then bootstrap fails
// with 5, 36 or 37. A job that is not loaded is 3 or 113.
var launchd = manager{
	folder: func() (string, error) {
		home, err := os.UserHomeDir()
		return filepath.Join(home, "Library", "LaunchAgents"), err
	},
	name: "dev.LABEL.plist",
	text: `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>dev.%[1]s</string>
	<key>ProgramArguments</key>
	<array>
		<string>%[2]s</string>
		<string>serve</string>
		<string>--quiet</string>
	</array>
	<key>EnvironmentVariables</key>
	<dict>
		<key>` + config.HomeVariable + `</key>
		<string>%[3]s</string>
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
	<key>StandardErrorPath</key>
	<string>%[3]s/logs/daemon.log</string>
	<key>ProcessType</key>
	<string>Interactive</string>
</dict>
</plist>
`,
	quote: func(text string) string {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
		return b.String()
	},
	reach:   "launchctl print gui/UID",
	running: "launchctl print gui/UID/dev.LABEL",
	load:    []string{"launchctl enable gui/UID/dev.LABEL", "launchctl bootstrap gui/UID FILE"},
	unload:  []string{"launchctl bootout gui/UID/dev.LABEL"},
	busy:    []int{5, 36, 37},
	gone:    []int{3, 36, 113},
	advice:  "Log in to the Mac's desktop as that user: launchd has no session for ssh, su or sudo.",
}
