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
	"osaurus-sandbox/supervisor/homelock"
	"osaurus-sandbox/supervisor/vault"
)

func newSecret() *cobra.Command {
	return noun("secret", `Keep secrets for agents

Secrets are kept in the Keychain on macOS, in your session's keyring on Linux, or in an encrypted file
(osaurus-sandbox config set secrets=file). "doctor" says whether the store works.

AGENT is the agent's name or id, or @host for this computer itself: @host INFERENCE_API_KEY is the key for the inference endpoint.
With --plugin, only that plugin of the agent can read the secret. Deleting an agent keeps its secrets under its id unless you use
--secrets. In the output of an agent's programs, names replace secrets.`,
		`  osaurus-sandbox secret set alice TOKEN
  osaurus-sandbox secret list alice
  osaurus-sandbox secret delete alice TOKEN`,
		newSecretSet(), newSecretAsk(), newSecretList(), newSecretDelete(), newSecretPassphrase())
}

// agentOf returns the agent's id. An id works without the daemon, and also for a deleted agent.
func agentOf(ctx context.Context, text string) (config.AgentID, error) {
	if text == secrets.HostName {
		return secrets.Host, nil
	}
	if id, err := config.ParseAgentID(text); err == nil {
		return id, nil
	}
	client, err := need(ctx, clientName)
	if err != nil {
		return "", err
	}
	defer client.Close()
	r, err := client.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: text})
	if err != nil {
		return "", err
	}
	return config.ParseAgentID(r.Agent.GetId())
}

// secretKey returns the key for the arguments AGENT NAME and the flag --plugin.
func secretKey(ctx context.Context, args []string, plugin string) (k secrets.Key, err error) {
	if k.Agent, err = agentOf(ctx, args[0]); err != nil {
		return k, err
	}
	if k.Name, err = config.ParseSecretName(args[1]); err != nil {
		return k, err
	}
	if plugin != "" {
		k.Plugin, err = config.ParsePluginID(plugin)
	}
	return k, err
}

// secretStore opens the store that the settings choose.
func secretStore(c console) (secrets.Store, error) {
	home, settings, err := loadSettings()
	if err != nil {
		return nil, err
	}
	return stores.Open(settings.Secrets, home, passphrasePrompt(c)), nil
}

func pluginFlag(to *string) option {
	return withFlag(to, "plugin", "a plugin's `ID`: once installed, only it can read the secret")
}

// called describes a secret, with the agent's name as the user wrote it.
func called(k secrets.Key, agent string) string {
	if _, err := config.ParseAgentID(agent); err != nil && k.Agent != secrets.Host {
		k.Agent = config.AgentID(agent)
	}
	return k.String()
}

// replyKey prints what was done with a secret.
func replyKey(c *call, done, agent string, k secrets.Key, err error) error {
	return reply(c, k, err, func(w io.Writer, k secrets.Key) error {
		return writef(w, "%s %s\n", done, called(k, agent))
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
	}
}

// binding returns the binding that the flags ask for, or nil.
func (f *bindingFlags) binding() (*controlpb.SecretBinding, error) {
	places := 0
	for _, set := range []bool{f.header != "", f.query != "", f.basic} {
		if set {
			places++
		}
	}
	var err error
	switch {
	case places > 1:
		err = fault.Newf(fault.InvalidArgs, "bind secret", "", "--header, --query and --basic cannot be combined")
	case len(f.hosts) == 0 && (places > 0 || f.require):
		err = fault.Newf(fault.InvalidArgs, "bind secret", "", "missing --host")
	}
	if err != nil || len(f.hosts) == 0 {
		return nil, err
	}
	b := secrets.Binding{Hosts: f.hosts, In: secrets.InHeader, Key: f.header, Require: f.require}
	if f.query != "" {
		b.In, b.Key = secrets.InQuery, f.query
	} else if f.basic {
		b.In = secrets.InBasic
	}
	b, err = b.Parse()
	return &controlpb.SecretBinding{Hosts: b.Hosts, In: b.In, Key: b.Key, Require: b.Require}, err
}

func newSecretSet() *cobra.Command {
	var plugin string
	var flags bindingFlags
	return command("set AGENT NAME", `Keep a secret, replacing any of that name

On a terminal, you type the secret, which is not shown. Otherwise it is read from standard input, without the last newline. It is
never an argument: other programs can see those, and the shell remembers them.

With --host, the secret never enters the sandbox: programs get a placeholder (osr_...), and the network gateway puts the secret in
its place in HTTPS requests to these hosts. Elsewhere the placeholder is of no use. The gateway reads the requests to these hosts;
the certificate with which it does so is trusted in the agents' rooms. A bound secret stays bound when you set it again without
--host. To unbind it, delete it.`,
		`  osaurus-sandbox secret set alice OPENAI_API_KEY
  pass show work/token | osaurus-sandbox secret set alice TOKEN --plugin python-data-tools
  osaurus-sandbox secret set alice TLS_KEY < key.pem
  osaurus-sandbox secret set alice GITHUB_TOKEN --host api.github.com --require`, func(ctx context.Context, c *call) error {
			k, err := secretKey(ctx, c.args, plugin)
			if err != nil {
				return err
			}
			binding, err := flags.binding()
			if err != nil {
				return err
			}
			v, err := readSecret(ctx, c.console, called(k, c.args[0]))
			if err != nil {
				return err
			}
			err = withSecrets(ctx, c, k.Agent, func([]*controlpb.SecretKey) error {
				_, err := c.Secrets.Set(ctx, &controlpb.SetSecretRequest{
					Agent: string(k.Agent), Plugin: string(k.Plugin), Name: string(k.Name), Value: v.Reveal(), Binding: binding,
				})
				return err
			}, func(store secrets.Store) error {
				if binding != nil {
					return fault.Newf(fault.Unavailable, "bind secret", string(k.Name), "the daemon does not run, or cannot open the store").
						Advise("Start it: osaurus-sandbox up")
				}
				return store.Set(ctx, k, v)
			})
			return replyKey(c, "kept", c.args[0], k, err)
		}, append(flags.options(), pluginFlag(&plugin))...)
}

func newSecretList() *cobra.Command {
	var plugin string
	return command("list AGENT", "List the names of an agent's secrets",
		`  osaurus-sandbox secret list alice`, func(ctx context.Context, c *call) error {
			agent, err := agentOf(ctx, c.args[0])
			if err != nil {
				return err
			}
			var of config.PluginID
			if plugin != "" {
				if of, err = config.ParsePluginID(plugin); err != nil {
					return err
				}
			}
			keys, err := listSecrets(ctx, c, agent)
			if err != nil {
				return err
			}
			if of != "" {
				keys = slices.DeleteFunc(keys, func(k listed) bool { return k.Plugin != of })
			}
			bound := slices.ContainsFunc(keys, func(k listed) bool { return k.Binding != nil })
			return reply(c, map[string][]listed{"secrets": append([]listed{}, keys...)}, nil, func(w io.Writer, _ map[string][]listed) error {
				return printTable(w, "", keys, func(k listed) []any {
					row := []any{k.Name, k.Plugin}
					if bound {
						row = append(row, k.bound())
					}
					return row
				})
			})
		}, pluginFlag(&plugin))
}

func newSecretDelete() *cobra.Command {
	var plugin string
	return command("delete AGENT NAME", "Delete a secret",
		`  osaurus-sandbox secret delete alice TOKEN`, func(ctx context.Context, c *call) error {
			k, err := secretKey(ctx, c.args, plugin)
			if err != nil {
				return err
			}
			err = withSecrets(ctx, c, k.Agent, func([]*controlpb.SecretKey) error {
				_, err := c.Secrets.Delete(ctx, &controlpb.DeleteSecretRequest{
					Agent: string(k.Agent), Plugin: string(k.Plugin), Name: string(k.Name),
				})
				return err
			}, func(store secrets.Store) error {
				home, _, err := loadSettings()
				if err == nil {
					err = store.Delete(ctx, k)
				}
				if _, owned := homelock.Holder(home); owned || err != nil {
					return err // a daemon that cannot open the store keeps the binding
				}
				return vault.Unbind(ctx, home, k)
			})
			return replyKey(c, "deleted", c.args[0], k, err)
		}, pluginFlag(&plugin))
}

func newSecretPassphrase() *cobra.Command {
	var remove bool
	return command("passphrase", `Set or change the passphrase of the encrypted file

Without a passphrase, anyone who can read the home folder can decrypt the secrets in the file. With one, the daemon needs `+agefile.PassphraseFileVariable+` in its environment: the path of a file with the passphrase, which only you can read.`,
		`  osaurus-sandbox secret passphrase
  osaurus-sandbox secret passphrase --remove`, func(ctx context.Context, c *call) error {
			store, err := secretStore(c.console)
			if err != nil {
				return err
			}
			file, ok := store.(*agefile.Store)
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

// withSecrets lets the daemon change an agent's secrets, so that changes are in the audit log and
// its output is redacted at once. It uses the store directly if no daemon runs, or if the daemon
// cannot open the store and this program can, because a passphrase can be typed here. Only the
// first request, a list of names, may lead to that: a change that the daemon refuses is final.
func withSecrets(ctx context.Context, c *call, agent config.AgentID, byDaemon func(keys []*controlpb.SecretKey) error, here func(secrets.Store) error) error {
	err := c.reach(ctx)
	if err == nil {
		var r *controlpb.ListSecretsResponse
		if r, err = c.Secrets.List(ctx, &controlpb.ListSecretsRequest{Agent: string(agent)}); err == nil {
			return byDaemon(r.Keys)
		}
	}
	if fault.KindOf(err) != fault.Unavailable {
		return err
	}
	store, err := secretStore(c.console)
	if err != nil {
		return err
	}
	return here(store)
}

// listed is a secret in a list.
type listed struct {
	secrets.Key
	Binding *secrets.Binding `json:"binding,omitempty"`
}

// bound describes where the secret is bound to, if it is.
func (l listed) bound() string {
	if l.Binding == nil {
		return ""
	}
	return l.Binding.String()
}

func listSecrets(ctx context.Context, c *call, agent config.AgentID) (keys []listed, err error) {
	err = withSecrets(ctx, c, agent, func(list []*controlpb.SecretKey) error {
		keys = make([]listed, len(list))
		for i, k := range list {
			keys[i].Key = secrets.Key{Agent: config.AgentID(k.Agent), Plugin: config.PluginID(k.Plugin), Name: config.SecretName(k.Name)}
			if b := k.Binding; b != nil {
				keys[i].Binding = &secrets.Binding{Hosts: b.Hosts, In: b.In, Key: b.Key, Require: b.Require}
			}
		}
		return nil
	}, func(store secrets.Store) (err error) {
		list, err := store.List(ctx, agent)
		for _, k := range list {
			keys = append(keys, listed{Key: k})
		}
		return err
	})
	return keys, err
}

func newSecretAsk() *cobra.Command {
	var plugin, text string
	var timeout time.Duration
	return daemonCommand("ask AGENT NAME", `Ask a person for a secret, and wait for the answer

Asks with a prompt, which can be answered from any terminal (osaurus-sandbox prompt answer) or app. The exit code is 4 if the
answer is no, and 5 if nobody answers.`,
		`  osaurus-sandbox secret ask alice OPENAI_API_KEY --text "for the nightly report"`, func(ctx context.Context, c *call) error {
			k, err := secretKey(ctx, c.args, plugin)
			if err != nil {
				return err
			}
			request := &controlpb.AskSecretRequest{Agent: string(k.Agent), Plugin: string(k.Plugin), Name: string(k.Name), Text: text}
			if timeout != 0 {
				request.Timeout = durationpb.New(timeout)
			}
			_, err = c.Secrets.Ask(ctx, request)
			return replyKey(c, "kept", c.args[0], k, err)
		},
		pluginFlag(&plugin),
		withFlag(&text, "text", "what it is for"),
		withFlag(&timeout, "timeout", "wait no longer than this, as in 90s (default 5m)"))
}
