package install

import (
	"context"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

// verifyTime bounds a verification in the background, which may install several plugins again.
const verifyTime = 30 * time.Minute

// round is a verification of an agent's plugins. All callers of Ready share it.
type round struct {
	boot string
	done chan struct{}
}

// Ready waits until an agent's plugins have been verified in the running guest, once per boot.
// It fails only if the guest does not start: plugins that cannot be repaired do not block others.
func (i *Installer) Ready(ctx context.Context, a tools.Agent) error {
	boot := i.Boot()
	if boot == "" {
		if err := i.Start(ctx); err != nil {
			return err
		}
		boot = i.Boot()
	}
	return i.await(ctx, a, boot)
}

// ReadyIn is Ready for one boot. It starts no guest, and reports whether the plugins were verified.
func (i *Installer) ReadyIn(ctx context.Context, a tools.Agent, boot string) bool {
	if i.Boot() != boot || i.await(ctx, a, boot) != nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stateOf(a.ID)
	return s.verified == boot || s.broken != nil
}

// await waits until an agent's plugins were verified in a boot. It joins the running verification, or
// starts one.
func (i *Installer) await(ctx context.Context, a tools.Agent, boot string) error {
	i.mu.Lock()
	s := i.stateOf(a.ID)
	if s.verified == boot || s.broken != nil || i.life.Err() != nil {
		i.mu.Unlock()
		return nil
	}
	r := s.looking
	if r == nil || r.boot != boot {
		r = &round{boot: boot, done: make(chan struct{})}
		s.looking = r
		i.work.Go(func() { i.goRound(a, s, r) })
	}
	i.mu.Unlock()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fault.Wrap("verify plugins", string(a.Name), ctx.Err()).Advise("Try again in a while: they are being repaired.")
	}
}

// goRound verifies an agent's plugins, and then starts their daemons and handlers.
func (i *Installer) goRound(a tools.Agent, s *state, r *round) {
	defer close(r.done)
	ctx, cancel := context.WithTimeout(context.WithValue(i.life, during{}, r.boot), verifyTime)
	defer cancel()
	_, err := i.Verify(ctx, a, Missing, "the sandbox")
	if err != nil && i.life.Err() == nil {
		i.Log.Warn("an agent's plugins were not verified", "agent", a.Name, "error", err)
	}
	i.mu.Lock()
	if s.looking == r {
		if s.looking = nil; err == nil {
			s.verified = r.boot
		}
	}
	list := s.list // never modified
	i.mu.Unlock()
	if err != nil {
		return
	}
	for _, r := range list {
		// In the background: a change of the plugin may take long, or even wait for this round.
		i.work.Go(func() { i.beginInTurn(a, r.ID) })
	}
}

// beginInTurn takes the turn and calls begin, since the plugin may have changed in the meantime.
func (i *Installer) beginInTurn(a tools.Agent, plugin config.PluginID) {
	end, err := i.turn(i.life, "begin plugin", a, plugin)
	if err != nil {
		return // closed
	}
	defer end()
	i.begin(a, plugin)
}

// during is the context key for the boot that background work belongs to. Such work must not
// start a guest that somebody has stopped.
type during struct{}

// here returns an error if that boot is over.
func (i *Installer) here(ctx context.Context) error {
	if boot, bound := ctx.Value(during{}).(string); bound && i.Boot() != boot {
		return fault.Newf(fault.Unavailable, "look after plugins", "", "the guest has ended").Advise("They are looked after when it starts again.")
	}
	return nil
}

// Reset makes the next Ready verify an agent's plugins again, because the agent was reset.
func (i *Installer) Reset(agent config.AgentID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s := i.agents[agent]; s != nil {
		s.verified, s.looking = "", nil
	}
}
