package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/tools/packages"
)

// install is the state of one install.
type install struct {
	*Installer
	call    *Call
	manager packages.Manager
	specs   []packages.Spec
	fetched bool // the index, by this call
	retried bool
	dirty   bool // the failed install left something that could not be removed
}

// do installs the packages. After a failure that it can repair, it tries once more.
func (j *install) do(ctx context.Context) (Installed, error) {
	before, err := j.listInstalled(ctx)
	if err != nil {
		return Installed{}, err
	}
	r, err := j.attempt(ctx)
	if err != nil {
		return Installed{}, err
	}
	class, again := j.judge(r)
	if !r.ok() && again {
		j.call.Say("it failed (%s); cleaning up and trying again", class)
		repaired, err := j.repair(ctx, class)
		if err != nil {
			return Installed{}, err
		}
		if j.retried = repaired.ok(); j.retried {
			if r, err = j.attempt(ctx); err != nil {
				return Installed{}, err
			}
			class, _ = j.judge(r)
		} else {
			j.dirty = true
			repaired.output = r.output + repaired.output
			r = repaired
		}
	}
	if r.ok() {
		summary, leftOut := packages.Summary(r.output, j.specs)
		return Installed{Installed: j.specs, Manager: j.manager, Output: summary, LeftOut: leftOut, Retried: j.retried}, nil
	}
	if err := j.undo(ctx, before); err != nil {
		return Installed{}, err
	}
	return Installed{}, j.failed(r, class)
}

// attempt refreshes the index and installs once. A failed refresh is ignored: the install reports the
// reason better.
func (j *install) attempt(ctx context.Context) (ran, error) {
	looked, err := j.refresh(ctx)
	if err != nil {
		return ran{}, err
	}
	j.call.Say("%s installs %s", j.manager, j.names())
	args := j.manager.Install(j.call.Home, j.specs)
	r, err := j.step(ctx, args)
	if _, missing := errors.AsType[*Failure](err); missing && j.manager == packages.Pip {
		if r, err = j.step(ctx, j.manager.Make(j.call.Home)); err == nil && r.ok() {
			r, err = j.step(ctx, args)
		}
	}
	if !r.ok() { // the refresh may have reported the reason
		r.output = looked.output + r.output
	}
	return r, err
}

// refresh updates the package index unless it is recent.
func (j *install) refresh(ctx context.Context) (ran, error) {
	args := j.manager.Refresh()
	j.mu.Lock()
	known := time.Since(j.fresh[j.call.ID]) < freshTime
	j.mu.Unlock()
	if args == nil || known {
		return ran{}, nil
	}
	j.call.Say("%s updates its package index", j.manager)
	r, err := j.step(ctx, args)
	if err == nil && r.ok() {
		j.fetched = true
		j.mu.Lock()
		j.fresh[j.call.ID] = time.Now()
		j.mu.Unlock()
	}
	return r, err
}

// judge classifies a failure and reports whether another attempt may succeed.
func (j *install) judge(r ran) (class packages.Class, again bool) {
	class, again = j.manager.Judge(r.output)
	switch {
	case r.exit.Quota:
		return packages.NoSpace, false
	case r.exit.OOM, r.exit.PIDs:
		return packages.OutOfRoom, false
	case r.exit.Idle:
		return packages.OutOfTime, false
	case class == packages.Missing && j.fetched: // the index is new
		return class, false
	}
	return class, again
}

// repair fixes the cause of a failure and returns the result of the last command.
func (j *install) repair(ctx context.Context, class packages.Class) (r ran, err error) {
	if class != packages.Broken && class != packages.Locked {
		j.mu.Lock()
		delete(j.fresh, j.call.ID)
		j.mu.Unlock()
	}
	for _, args := range j.manager.Repair(class, j.call.Home) {
		if r, err = j.step(ctx, args); err != nil {
			return r, err
		}
	}
	select {
	case <-time.After(retryPause):
		return r, nil
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
}

// listInstalled lists the installed packages, if failures leave some behind.
func (j *install) listInstalled(ctx context.Context) (string, error) {
	args := j.manager.ListInstalled()
	if args == nil {
		return "", nil
	}
	r, err := j.run(ctx, j.call, true, nil, args...)
	switch {
	case absent(err, args[0]):
		return "", j.noManager(args[0], err)
	case err != nil:
		return "", err
	case !r.ok() || r.lost > 0:
		return "", fault.Newf(fault.Execution, "list packages", string(j.manager), "exit %d: %s", r.exit.Status(), printable.LastLines(r.output, 1))
	}
	return r.output, nil
}

// undo removes what a failed install left behind.
func (j *install) undo(ctx context.Context, before string) error {
	after, err := j.listInstalled(ctx)
	if err != nil {
		return err
	}
	for _, args := range j.manager.Undo(before, after) {
		j.call.Say("removing half-installed packages")
		r, err := j.step(ctx, args)
		if err != nil {
			return err
		}
		j.dirty = j.dirty || !r.ok()
	}
	return nil
}

// step runs a command of the manager as the right user.
func (j *install) step(ctx context.Context, args []string) (ran, error) {
	r, err := j.run(ctx, j.call, j.manager.System(), j.call.Say, args...)
	if absent(err, args[0]) {
		return ran{}, j.noManager(args[0], err)
	}
	return r, err
}

func (j *install) names() string {
	list := make([]string, len(j.specs))
	for i, s := range j.specs {
		list[i] = string(s)
	}
	return strings.Join(list, " ")
}

// failed describes a failed install, with the output of the last command.
func (j *install) failed(r ran, class packages.Class) *Failure {
	output, _ := clip(r.output, maxInstallOutput, r.lost)
	why := packages.Complaint(output)
	if why == "" {
		why = fmt.Sprintf("exit code %d", r.exit.Status())
	}
	kind := fault.Execution
	if class == packages.OutOfTime {
		kind, why = fault.Timeout, fmt.Sprintf("it wrote nothing for %v", idleLimit)
	}
	if class == packages.NoNetwork && j.manager == packages.Pip {
		why = "its index was not reached" // pip reports this as a missing version
	}
	advice := class.Advice()
	if class == packages.NoNetwork && j.call.Settings.Network == config.NetworkClosed {
		advice = "This agent has no network; a person can change that: osaurus-sandbox agent set " + string(j.call.Name) + " network=open"
	} else if class == packages.NoNetwork && !j.call.Settings.AllowsLocalhost() && !packages.Unresolved(output) {
		advice += " If that server runs on this computer, a person can let the agent reach it: osaurus-sandbox agent set " + string(j.call.Name) + " 'network.rules+=allow localhost'"
	}
	final := class == packages.Signature || class == packages.Broken && j.dirty
	more := map[string]any{"failure_class": class, "manager": j.manager, "packages": j.specs, "exit_code": r.exit.Status(), "output": output}
	if j.retried {
		more["retried"] = true
	}
	if j.dirty {
		more["cleanup_failed"] = true
	}
	return &Failure{
		Kind: kind, Final: final, More: more,
		Message: fmt.Sprintf("%s did not install %s (%s): %s. %s", j.manager, j.names(), class, why, advice),
	}
}

// noManager returns the failure for a missing package manager.
func (j *install) noManager(program string, cause error) *Failure {
	advice := map[packages.Manager]string{
		packages.APT: "The sandbox knows apk and apt, and the guest has neither.",
		packages.Pip: `Call sandbox_install with ["python3"]; where the guest is a Debian, with ["python3", "python3-venv"].`,
		packages.NPM: `Call sandbox_install with ["nodejs", "npm"].`,
	}[j.manager]
	return &Failure{
		Kind: fault.Unavailable, Final: true, Cause: cause, More: map[string]any{"failure_class": packages.Unequipped, "manager": j.manager, "packages": j.specs},
		Message: fmt.Sprintf("the sandbox has no %s. %s", program, advice),
	}
}
