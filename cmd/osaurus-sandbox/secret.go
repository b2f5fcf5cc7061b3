package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/agefile"
	"osaurus-sandbox/secrets/stores"
)

func newSecret() *cobra.Command {
	return noun("secret", newSecretSet(), newSecretAsk(), newSecretList(), newSecretDelete(), newSecretPassphrase())
}

func pluginFlag(to *string) option {
	return withFlag(to, "plugin", "a plugin's `ID`: once installed, only it can read the secret")
}

// called describes a secret of an agent as the user wrote it.
func called(agent, plugin, name string) string {
	k := secrets.Key{Agent: config.AgentID(agent), Plugin: config.PluginID(plugin), Name: config.SecretName(name)}
	if agent == secrets.HostName {
		k.Agent = secrets.Host
	}
	return k.String()
}

// replyKey prints what was done with a secret.
func replyKey(c *call, done string, k *controlpb.SecretKey, err error) error {
	return reply(c, k, err, func(w io.Writer, k *controlpb.SecretKey) error {
		return writef(w, "%s %s\n", done, called(c.args[0], k.Plugin, k.Name))
	})
}

// bindingFlags are the flags that bind a secret to hosts.
type bindingFlags struct {
	hosts          []string
	header, query  string
	basic, require bool
}

func (f *bindingFlags) options() []option {
	return []option{
		withFlag(&f.hosts, "host", "send it to this `HOST` only, and give programs a placeholder; can be given again"),
		withFlag(&f.header, "header", "with --host: the `NAME` of the header that has the placeholder (default Authorization)"),
		withFlag(&f.query, "query", "with --host: the `NAME` of the parameter that has the placeholder"),
		withFlag(&f.basic, "basic", "with --host: the placeholder is the user or password of basic authentication"),
		withFlag(&f.require, "require", "with --host: refuse requests to the host with another credential or none"),
		exclusive("header query basic"),
	}
}

// binding returns the binding that the flags ask for, or nil.
func (f *bindingFlags) binding() (*controlpb.SecretBinding, error) {
	if len(f.hosts) == 0 {
		if f.header != "" || f.query != "" || f.basic || f.require {
			return nil, fault.Newf(fault.InvalidArgs, "bind secret", "", "missing --host")
		}
		return nil, nil
	}
	b := secrets.Binding{Hosts: f.hosts, In: secrets.InHeader, Key: f.header, Require: f.require}
	if f.query != "" {
		b.In, b.Key = secrets.InQuery, f.query
	} else if f.basic {
		b.In = secrets.InBasic
	}
	b, err := b.Parse()
	return &controlpb.SecretBinding{Hosts: b.Hosts, In: b.In, Key: b.Key, Require: b.Require}, err
}

func newSecretSet() *cobra.Command {
	r := &controlpb.SetSecretRequest{}
	var flags bindingFlags
	return daemonCommand("set AGENT NAME", func(ctx context.Context, c *call) (err error) {
		r.Agent, r.Name = c.args[0], c.args[1]
		if r.Binding, err = flags.binding(); err != nil {
			return err
		}
		if _, err := config.ParseSecretName(r.Name); err != nil {
			return err
		}
		// Before the secret is typed: the agent may not exist, or the store not open.
		if _, err := c.Secrets.List(ctx, &controlpb.ListSecretsRequest{Agent: r.Agent}); err != nil {
			return err
		}
		v, err := readSecret(ctx, c.console, called(r.Agent, r.Plugin, r.Name))
		if err != nil {
			return err
		}
		r.Value = v.Reveal()
		kept, err := c.Secrets.Set(ctx, r)
		return replyKey(c, "kept", kept.GetKey(), err)
	}, append(flags.options(), pluginFlag(&r.Plugin))...)
}

func newSecretList() *cobra.Command {
	var plugin string
	return daemonCommand("list AGENT", func(ctx context.Context, c *call) error {
		r, err := c.Secrets.List(ctx, &controlpb.ListSecretsRequest{Agent: c.args[0]})
		if err != nil {
			return err
		}
		r.Keys = slices.DeleteFunc(r.Keys, func(k *controlpb.SecretKey) bool { return plugin != "" && k.Plugin != plugin })
		return replyTable(c, r, nil, "", r.Keys, func(k *controlpb.SecretKey) []any {
			row := []any{k.Name, k.Plugin}
			if b := k.Binding; b != nil {
				row = append(row, secrets.Binding{Hosts: b.Hosts, In: b.In, Key: b.Key, Require: b.Require})
			}
			return row
		})
	}, pluginFlag(&plugin))
}

func newSecretDelete() *cobra.Command {
	r := &controlpb.DeleteSecretRequest{}
	return daemonCommand("delete AGENT NAME", func(ctx context.Context, c *call) error {
		r.Agent, r.Name = c.args[0], c.args[1]
		deleted, err := c.Secrets.Delete(ctx, r)
		return replyKey(c, "deleted", deleted.GetKey(), err)
	}, pluginFlag(&r.Plugin))
}

func newSecretPassphrase() *cobra.Command {
	var remove bool
	return command("passphrase", func(ctx context.Context, c *call) error {
		home, settings, err := loadSettings()
		if err != nil {
			return err
		}
		file, ok := stores.Open(settings.Secrets, home, passphrasePrompt(c.console)).(*agefile.Store)
		if !ok {
			return fault.Newf(fault.InvalidArgs, "set passphrase", "", "secrets are not kept in a file").
				Advise("The system's store has its own password. To keep them in a file: osaurus-sandbox config set secrets=file")
		}
		if remove {
			err = file.Unprotect(ctx)
		} else {
			var passphrase secrets.Value
			if passphrase, err = newPassphrase(ctx, c.console); err == nil {
				err = file.Protect(ctx, passphrase)
			}
		}
		return reply(c, map[string]bool{"passphrase": !remove}, err, nil)
	}, withFlag(&remove, "remove", "remove the passphrase"))
}

// newPassphrase reads a passphrase from standard input. On a terminal it must be typed twice,
// since it is not shown.
func newPassphrase(ctx context.Context, c console) (secrets.Value, error) {
	first, err := readSecret(ctx, c, "the new passphrase")
	if err != nil || terminalWidth(c.in) == 0 {
		return first, err
	}
	second, err := readSecret(ctx, c, "the passphrase again")
	if err == nil && second.Reveal() != first.Reveal() {
		err = fault.Newf(fault.InvalidArgs, "set passphrase", "", "the two passphrases differ").Advise("Nothing was changed. Try again.")
	}
	return first, err
}

func newSecretAsk() *cobra.Command {
	r := &controlpb.AskSecretRequest{}
	var timeout time.Duration
	return daemonCommand("ask AGENT NAME", func(ctx context.Context, c *call) error {
		r.Agent, r.Name = c.args[0], c.args[1]
		if timeout != 0 {
			r.Timeout = durationpb.New(timeout)
		}
		kept, err := c.Secrets.Ask(ctx, r)
		return replyKey(c, "kept", kept.GetKey(), err)
	},
		pluginFlag(&r.Plugin),
		withFlag(&r.Text, "text", "what it is for"),
		withFlag(&timeout, "timeout", "wait no longer than this, as in 90s (default 5m)"))
}
