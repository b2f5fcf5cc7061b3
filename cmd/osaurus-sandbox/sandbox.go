package main

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	spi "osaurus-sandbox/engine"
	"osaurus-sandbox/engine/enginetest"
	"osaurus-sandbox/engine/local"
	"osaurus-sandbox/internal/fault"
)

// Backends of the execution SPI that the conformance kit can test.
const (
	backendRoom  = "room"
	backendLocal = "local-UNSAFE"
)

func newSandbox(c console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sandbox",
		Short:   "Try the backends that run commands for agents",
		Example: `  osaurus-sandbox sandbox test --agent alice`,
		Hidden:  true, // for developers: docs/spi.md
	}
	cmd.AddCommand(newSandboxTest(c))
	return cmd
}

func newSandboxTest(c console) *cobra.Command {
	var backend, agent string
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Run the conformance kit on a backend",
		Long: `Runs every scenario of the conformance kit (docs/spi.md) on a backend, and says of each promise whether it was kept.

  room          an agent's room in the VM, over the daemon's API
  local-UNSAFE  this very computer, confined by its own kernel and by no VM: for development only

The kit works in new folders, which it removes. It takes a few minutes.`,
		Example: `  osaurus-sandbox sandbox test --backend room --agent alice
  osaurus-sandbox sandbox test --backend local-UNSAFE --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			suite, done, err := suiteOf(cmd.Context(), backend, agent)
			if err != nil {
				return err
			}
			defer done()
			each := func(r enginetest.Result) { _ = r.Print(c.out) } // printing the last line reports a broken output
			if wantsJSON(cmd) {
				each = nil
			}
			report, err := enginetest.Check(cmd.Context(), suite, each)
			if err != nil {
				return err
			}
			err = reply(cmd, report, nil, func(w io.Writer, r enginetest.Report) error { return r.PrintTotal(w) })
			if err == nil && !report.OK() {
				err = fault.Newf(fault.Execution, "test backend", backend, "not kept: %s", plural(report.Failed, "promise")).
					Advise("Do not use it where these promises matter.")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&backend, "backend", backendRoom, "which one: "+strings.Join([]string{backendRoom, backendLocal}, ", "))
	f.StringVar(&agent, "agent", "", "the agent in whose room it runs")
	_ = cmd.RegisterFlagCompletionFunc("backend", cobra.FixedCompletions([]string{backendRoom, backendLocal}, cobra.ShellCompDirectiveNoFileComp))
	return withJSON(cmd)
}

// suiteOf prepares a backend for the kit. done releases it.
func suiteOf(ctx context.Context, backend, agent string) (suite enginetest.Suite, done func(), err error) {
	const op = "test backend"
	switch backend {
	case backendRoom:
		if agent == "" {
			return suite, nil, fault.Newf(fault.InvalidArgs, op, backend, "--agent is missing").Advise("Name an agent: --agent alice.")
		}
		client, err := need(ctx)
		if err != nil {
			return suite, nil, err
		}
		suite, err = client.ConformanceSuite(ctx, agent)
		if err != nil {
			client.Close()
			return suite, nil, err
		}
		return suite, client.Close, nil
	case backendLocal:
		unsafe, err := local.NewUNSAFE(ctx, local.Options{ThisIsUnsafe: true})
		if err != nil {
			return suite, nil, err
		}
		root, err := os.MkdirTemp("", "osaurus-kit-")
		if err != nil {
			return suite, nil, fault.New(fault.Unavailable, op, backend, err).Advise("Make room in the temporary folder, or set TMPDIR.")
		}
		var seen sync.Map // the agents that commands ran for
		record := func(r spi.Request) error { seen.Store(r.Tenant, true); return nil }
		audited := func(_ context.Context, t spi.Tenant) (bool, error) { _, ok := seen.Load(t); return ok, nil }
		return enginetest.Suite{Name: backendLocal, Sandbox: spi.Recorded(unsafe, record), Root: root, Audited: audited},
			func() { _ = os.RemoveAll(root) }, nil
	}
	return suite, nil, fault.Newf(fault.InvalidArgs, op, backend, "there is no such backend").
		Advise("Choose " + backendRoom + " or " + backendLocal + ".")
}
