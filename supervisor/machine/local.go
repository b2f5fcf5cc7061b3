package machine

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
)

// local is the Backend that works on this computer.
type local struct{ *boot.Site }

// Boot implements Backend.
func (l local) Boot(ctx context.Context, s config.Settings, tracker *progress.Tracker) (Guest, boot.Machine, error) {
	g, m, err := l.Site.Boot(ctx, s, tracker)
	if err != nil {
		return nil, m, err
	}
	return g, m, nil
}
