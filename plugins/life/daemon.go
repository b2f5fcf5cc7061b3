package life

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// A daemon that ends is started again. It has failed when it ends for the sixth time within five
// minutes, as in the desktop app.
const (
	maxRestarts   = 5
	restartPeriod = 300 * time.Second
	// restartPause prevents a busy loop if the daemon ends at once.
	restartPause = time.Second
	// daemonGrace is how long a daemon may run after SIGTERM.
	daemonGrace = 5 * time.Second
	// lastWords is how much of a failed daemon's output is logged, in bytes.
	lastWords = 2 << 10
)

// errRoom is the error of a daemon whose room was ended.
var errRoom = errors.New("its room was ended")

// supervise runs the plugin's daemon until the context ends, in each guest that starts. It waits
// until the plugin's handlers are ready to receive the daemon's events.
func (p *plugin) supervise(ctx context.Context) {
	select {
	case <-p.hears:
	case <-ctx.Done():
	}
	var ends []time.Time // within restartPeriod
	var waits backoff
	for ctx.Err() == nil {
		begun, boot := p.begun.Next(), p.of.Boot()
		words, err := p.runDaemon(ctx, boot)
		if err == nil {
			waits = backoff{}
		}
		var later <-chan time.Time // never, but when a guest starts or a person enables the plugin
		switch now := time.Now(); {
		case ctx.Err() != nil:
			return
		case p.gone(boot):
			ends, waits = nil, backoff{}
		case errors.Is(err, errRoom): // after a reset of the agent the plugin is set up again and begun
			ends, later = nil, time.After(askSeldom)
		case err != nil && passing(err):
			p.wait(ctx, &waits, begun, "the daemon does not run yet", err)
			continue
		default:
			if err != nil {
				words = err.Error() // such as a missing folder
			}
			if ends = append(slices.DeleteFunc(ends, func(t time.Time) bool { return now.Sub(t) >= restartPeriod }), now); len(ends) <= maxRestarts {
				p.log(ctx, bridge.Warn, "the daemon is started again: "+words)
				later = time.After(restartPause)
				break
			}
			failed := fmt.Errorf("it ended %d times in %d minutes, the last time: %s", len(ends), int(restartPeriod.Minutes()), words)
			p.log(ctx, bridge.Error, "the daemon is not started again: "+failed.Error())
			p.of.Failed(p.who(), p.id, failed)
			ends = nil
		}
		select {
		case <-begun:
		case <-later:
		case <-ctx.Done():
		}
	}
}

// runDaemon runs the daemon until it ends, and describes how it did. It fails if the daemon cannot be
// started, or if the guest or the room ends.
func (p *plugin) runDaemon(ctx context.Context, boot string) (words string, err error) {
	job, err := p.startDaemon(ctx)
	if err != nil {
		return "", err
	}
	return p.watch(ctx, boot, job)
}

// startDaemon starts the daemon. It first ends one that runs already: a guest that did not answer
// may have started it late, or have missed the request to end it.
func (p *plugin) startDaemon(ctx context.Context) (engine.Job, error) {
	cmd, err := p.command(ctx, p.recipe.Daemon.Command, environ(p.recipe.Daemon.Env))
	if err != nil {
		return engine.Job{}, err
	}
	list, err := p.room().Jobs(ctx)
	if err != nil {
		return engine.Job{}, err
	}
	for _, job := range list {
		if job.Running && job.Plugin == p.id { // not by its label, which any job may have
			if err := p.stopDaemon(job.ID); err != nil {
				return engine.Job{}, err
			}
		}
	}
	return p.room().StartJob(ctx, engine.JobCommand{
		Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Label: "daemon of plugin " + string(p.id), Plugin: cmd.Plugin, Network: cmd.Network,
	})
}

// watch waits until the daemon has ended and describes how. It fails if the guest or the room has
// ended. When the context ends, it ends the daemon.
func (p *plugin) watch(ctx context.Context, boot string, job engine.Job) (words string, err error) {
	for job.Running {
		next, err := p.room().WaitJob(ctx, job.ID, engine.MaxJobWait)
		switch {
		case ctx.Err() != nil:
			_ = p.stopDaemon(job.ID) // otherwise startDaemon does
			return "", ctx.Err()
		case err == nil:
			job = next
			continue
		case p.gone(boot):
			return "", err
		case fault.KindOf(err) == fault.NotFound:
			return "", errRoom
		}
		pause(ctx, askAgain, nil)
	}
	words = fmt.Sprintf("it ended with status %d", job.Status())
	if tail, err := p.room().TailJobEnd(ctx, job.ID, lastWords); err == nil && len(tail.Data) > 0 {
		words += " and wrote " + strings.ToValidUTF8(strings.TrimSpace(string(tail.Data)), "\uFFFD")
	}
	return words, nil
}

// stopDaemon ends the daemon and waits until it has ended.
func (p *plugin) stopDaemon(id config.JobID) error {
	if p.of.life.Err() != nil && p.of.Silent() {
		return nil // the guest does not answer, and ends anyway
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	for _, hard := range []bool{false, true} {
		job, err := p.room().KillJob(ctx, id, hard)
		if err == nil && job.Running {
			job, err = p.room().WaitJob(ctx, id, daemonGrace)
		}
		switch {
		case fault.KindOf(err) == fault.NotFound: // it has ended and is forgotten
			return nil
		case err != nil || !job.Running:
			return err
		}
	}
	return fault.Newf(fault.Timeout, "end daemon", string(p.id), "it has not ended")
}

// stopLimit bounds the wait for the end of a daemon.
const stopLimit = 30 * time.Second

func environ(env map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
