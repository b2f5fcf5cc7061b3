package daemon

import (
	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
)

// maxLog is how large a log grows before it is rotated. With the one before it, that is
// some hundred thousand lines.
const maxLog = 8 << 20

// openLog opens the daemon's log.
func openLog(home config.Home) (*config.LogFile, error) {
	if _, err := home.Make(home.Logs()); err != nil {
		return nil, err
	}
	path := control.DaemonLog(home)
	l, err := config.OpenLog(path, maxLog)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "open log", path, err).Advise("Make it and its folder writable for you, or set " + config.HomeVariable + " to another home.")
	}
	return l, nil
}
