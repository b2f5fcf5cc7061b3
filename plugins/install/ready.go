package install

import (
	"cmp"
	"context"
	"sync"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/tools"
)

const (
	// verifyTime bounds a verification in the background, which may install several plugins again.
	verifyTime = 30 * time.Minute
	// lookAgain is the pause after a failed verification: a guest may be silent for a while. It doubles
	// each time, up to lookSeldom.
	lookAgain  = 2 * time.Second
	lookSeldom = time.Minute
)

// round is the verification of an agent's plugins in a boot.
type round struct {
	boot string
	done chan struct{} // closed after the first attempt
}

// Ready waits until an agent's plugins have been verified in the running guest, once per boot.
// It fails only if the guest does not start: plugins that cannot be repaired do not block others.
func (i *Installer) Ready(ctx context.Context, a tools.Agent) error {
	if i.Boot() == "" {
		if err := i.Start(ctx); err != nil {
			return err
		}
	}
	select {
	case <-i.Look(a):
		return nil
	case <-ctx.Done():
		return fault.Wrap("verify plugins", string(a.Name), ctx.Err()).Advise("Try again in a while: they are being repaired.")
	}
}

// Look begins to verify an agent's plugins in the running guest, unless that was done before. The channel is
// closed after the first attempt.
func (i *Installer) Look(a tools.Agent) <-chan struct{} {
	boot := i.Boot()
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stateOf(a.ID)
	if boot == "" || len(s.list) == 0 || s.broken != nil || i.life.Err() != nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	if s.round == nil || s.round.boot != boot {
		r := &round{boot: boot, done: make(chan struct{})}
		s.round = r
		i.work.Go(func() { i.goRound(a, s, r) })
	}
	return s.round.done
}

// goRound verifies an agent's plugins until that works or the round is over. Then it starts their daemons
// and handlers.
func (i *Installer) goRound(a tools.Agent, s *state, r *round) {
	first := sync.OnceFunc(func() { close(r.done) })
	defer first()
	for pause := cmp.Or(i.Pause, lookAgain); ; pause = min(2*pause, lookSeldom) {
		ctx, cancel := context.WithTimeout(context.WithValue(i.life, during{}, r.boot), verifyTime)
		_, err := i.Verify(ctx, a, Missing, "the sandbox")
		cancel()
		i.mu.Lock()
		list, over := s.list, s.round != r // the list is never modified
		i.mu.Unlock()
		if err == nil {
			for _, r := range list {
				// In the background: a change of the plugin may take long, or even wait for this round.
				i.work.Go(func() { i.beginInTurn(a, r.ID) })
			}
			return
		}
		if over || i.Boot() != r.boot || i.life.Err() != nil {
			return
		}
		i.Log.Warn("an agent's plugins were not verified", "agent", a.Name, "error", err)
		first()
		select {
		case <-time.After(pause):
		case <-i.life.Done():
		}
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

// checkBoot returns an error if that boot is over.
func (i *Installer) checkBoot(ctx context.Context) error {
	if boot, bound := ctx.Value(during{}).(string); bound && i.Boot() != boot {
		return fault.Newf(fault.Unavailable, "look after plugins", "", "the guest has ended").Advise("They are looked after when it starts again.")
	}
	return nil
}

// Reset verifies an agent's plugins again, because the agent was reset.
func (i *Installer) Reset(agent config.AgentID) {
	i.mu.Lock()
	if s := i.agents[agent]; s != nil {
		s.round = nil
	}
	i.mu.Unlock()
	if a, err := i.Agent(agent); err == nil {
		i.Look(a)
	}
}
