package machine

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
)

// local is the Backend that works on this computer.
type local struct{ *boot.Site }

func (l local) Boot(ctx context.Context, s config.Settings, tracker *progress.Tracker) (Guest, boot.Machine, error) {
	g, m, err := l.Site.Boot(ctx, s, tracker)
	if err != nil {
		return nil, m, err
	}
	return Launched(g), m, nil
}

// Launched is a guest that was launched as supervisors see it.
func Launched(g *boot.Guest) Guest { return launched{g} }

type launched struct{ guest *boot.Guest }

func (l launched) Ping(ctx context.Context) error               { return l.guest.Client.Ping(ctx) }
func (l launched) Info(ctx context.Context) (guest.Info, error) { return l.guest.Client.Info(ctx) }
func (l launched) Shutdown(ctx context.Context) error           { return l.guest.Shutdown(ctx) }
func (l launched) Close() error                                 { return l.guest.Close() }
func (l launched) Done() <-chan struct{}                        { return l.guest.Machine.Done() }
func (l launched) Err() error                                   { return l.guest.Machine.Err() }
func (l launched) Waited() time.Duration                        { return l.guest.Machine.Waited() }
func (l launched) Standstill() error                            { return l.guest.Machine.Standstill() }
func (l launched) Rooms() Rooms                                 { return l.guest.Client }
func (l launched) Shells() Shells                               { return l.guest.Client }
func (l launched) Jobs() Jobs                                   { return l.guest.Client }
func (l launched) Files() Files                                 { return l.guest.Client }

func (l launched) Exec(ctx context.Context, cmd engine.Command) (Process, error) {
	p, err := l.guest.Client.Exec(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return p, nil
}
