package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/tools"
)

// pluginInstallCommand returns a command that installs a plugin with the options in r.
func pluginInstallCommand(r *controlpb.InstallPluginRequest, use string) *cobra.Command {
	return daemonCommand(use, func(ctx context.Context, c *call) error {
		r.Plugin, r.Agent = c.args[0], c.args[1]
		answer, err := withProgress(c, control.Messages(c.Installs.Install(ctx, r)))
		return replyInstalled(ctx, c, answer.GetPlugin(), err)
	}, withFlag(&r.WithoutSecrets, "without-secrets", "install the plugin even if a secret is missing, and do not ask for it"))
}

// replyInstalled prints a plugin that was installed for an agent, and what a person should know.
func replyInstalled(ctx context.Context, c *call, p *controlpb.InstalledPlugin, err error) error {
	return reply(c, p, err, func(w io.Writer, p *controlpb.InstalledPlugin) error {
		err := writef(w, "%s has %s%s.\n", p.Agent, p.Plugin, withTools(p))
		for _, warning := range p.Warnings {
			writef(c.err, "%s\n", printable.Clip(warning))
		}
		noteReadOnly(ctx, c, p)
		if len(p.WithoutSecrets) > 0 {
			writef(c.err, "It lacks the secret %s: osaurus-sandbox secret set %s NAME\n", strings.Join(p.WithoutSecrets, ", "), p.Agent)
		}
		return err
	})
}

// noteReadOnly warns if the agent may not call the plugin's tools yet, since all of them run
// commands. Errors are ignored: the plugin is installed anyway.
func noteReadOnly(ctx context.Context, c *call, p *controlpb.InstalledPlugin) {
	if len(p.Tools) == 0 {
		return
	}
	r, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: p.Agent})
	if err == nil && settingText(r.Agent, string(tools.Exec)) == "false" {
		writef(c.err, "So far %s may only read, and cannot call them: osaurus-sandbox agent set %s %s=true\n", p.Agent, p.Agent, tools.Exec)
	}
}

// withTools lists a plugin's tools.
func withTools(p *controlpb.InstalledPlugin) string {
	switch {
	case p.Disabled:
		return ", which is disabled"
	case len(p.Tools) == 0:
		return ""
	}
	return ", with the tools " + strings.Join(p.Tools, ", ")
}

func newPluginUninstall() *cobra.Command {
	return daemonCommand("uninstall PLUGIN AGENT", func(ctx context.Context, c *call) error {
		_, err := c.Installs.Uninstall(ctx, &controlpb.UninstallPluginRequest{Plugin: c.args[0], Agent: c.args[1]})
		return replyPluginOf(c, err)
	})
}

// pluginEnableCommand returns a command that enables or disables a plugin.
func pluginEnableCommand(use string, disable bool) *cobra.Command {
	return daemonCommand(use, func(ctx context.Context, c *call) error {
		_, err := c.Installs.Enable(ctx, &controlpb.EnablePluginRequest{Plugin: c.args[0], Agent: c.args[1], Disable: disable})
		return replyPluginOf(c, err)
	})
}

// replyPluginOf prints the arguments PLUGIN and AGENT as JSON.
func replyPluginOf(c *call, err error) error {
	return reply(c, map[string]string{"plugin": c.args[0], "agent": c.args[1]}, err, nil)
}

func newPluginVerify() *cobra.Command {
	repair := "missing"
	return daemonCommand("verify AGENT [PLUGIN...]", func(ctx context.Context, c *call) error {
		r, err := c.Installs.Verify(ctx, &controlpb.VerifyPluginsRequest{Agent: c.args[0], Plugins: c.args[1:], Repair: repair})
		return errors.Join(reply(c, r, err, printReports), unsound(c.args[0], r))
	},
		withFlag(&repair, "repair", "what to restore: nothing, missing, all"))
}

// unsound returns an error that names the plugins that are not as installed.
func unsound(agent string, r *controlpb.VerifyPluginsResponse) error {
	var ids []string
	for _, report := range r.GetReports() {
		if len(report.Problems) > 0 && !report.Repaired {
			ids = append(ids, report.Plugin)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return fault.Newf(fault.Execution, "verify plugins", agent, "not as they were installed: %s", strings.Join(ids, ", ")).
		Advise("Put back what was changed with --repair all, or install the plugin again.")
}

func printReports(w io.Writer, r *controlpb.VerifyPluginsResponse) error {
	return printTable(w, "PLUGIN\tSTATE\tPROBLEMS", r.Reports, func(report *controlpb.VerifyPluginsResponse_Report) []any {
		state := "in order"
		switch {
		case report.Repaired:
			state = "repaired"
		case len(report.Problems) > 0:
			state = "damaged"
		}
		problems := strings.Join(report.Problems, "; ")
		if report.Error != "" {
			problems += ": " + printable.Clip(report.Error)
		}
		return []any{report.Plugin, state, problems}
	})
}

func newPluginStatus() *cobra.Command {
	return daemonCommand("status [AGENT]", func(ctx context.Context, c *call) error {
		r, err := c.Installs.List(ctx, &controlpb.ListInstalledRequest{Agent: c.arg(0)})
		return reply(c, r, err, func(w io.Writer, r *controlpb.ListInstalledResponse) error {
			for _, b := range r.Broken {
				writef(c.err, "%s: %s. %s\n", b.Agent, b.Error, b.Advice)
			}
			return printTable(w, "AGENT\tPLUGIN\tVERSION\tINSTALLED\tSTATUS\tTOOLS", r.Plugins, func(p *controlpb.InstalledPlugin) []any {
				return []any{p.Agent, p.Plugin, cmp.Or(p.Version, "-"), when(p.Installed), pluginState(p), len(p.Tools)}
			})
		})
	})
}

// pluginState describes the state of a plugin in a few words.
func pluginState(p *controlpb.InstalledPlugin) string {
	words := []string{p.Status}
	if p.Disabled {
		words = append(words, "disabled")
	}
	if p.Outdated {
		words = append(words, "update available")
	}
	if len(p.WithoutSecrets) > 0 {
		words = append(words, "lacks "+strings.Join(p.WithoutSecrets, " "))
	}
	if f := p.Failure; f != nil {
		words = append(words, fmt.Sprintf("failed at %s: %s", f.Step, printable.Clip(f.Message)))
	}
	return strings.Join(words, ", ")
}
