package vault

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/intercept"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/audit"
)

// gatewayClient is the audit's name for secrets that the gateway sends.
const gatewayClient = "gateway"

// Bind stores a secret that is bound to hosts. From then on programs get its placeholder only. The
// caller has parsed the binding.
func (v *Vault) Bind(ctx context.Context, k secrets.Key, value secrets.Value, to secrets.Binding) error {
	if k.Agent == secrets.Host {
		return fault.Newf(fault.InvalidArgs, "bind secret", string(k.Name), "no agent uses the secrets of this computer").Advise("Name an agent.")
	}
	return v.set(ctx, k, value, func() error {
		if _, err := v.openAuthority(ctx, false); err != nil {
			return err
		}
		return v.Bindings.set(ctx, k, to) // before the value, so that no program gets it
	})
}

// Binding returns the binding of a secret.
func (v *Vault) Binding(k secrets.Key) (to secrets.Binding, bound bool) { return v.Bindings.find(k) }

// boundTo reports whether a secret of the program's agent is bound to a host, or to any if it is
// empty.
func (v *Vault) boundTo(who bridge.Caller, host string) bool {
	for key, to := range v.Bindings.of(who.Agent) {
		if (host == "" || slices.Contains(to.Hosts, host)) && v.uses(who, key) {
			return true
		}
	}
	return false
}

// credentials returns the bound secrets of a program's agent: those that it may send to a host, and
// the others, whose placeholders are refused there.
func (v *Vault) credentials(who bridge.Caller, host string) (allowed, foreign []intercept.Credential) {
	for key, to := range v.Bindings.of(who.Agent) {
		c := intercept.Credential{
			Secret: key.Name, Placeholder: to.Placeholder, Hosts: to.Hosts, Value: v.sender(who, key, host), Key: to.Key, Require: to.Require,
		}
		switch to.In {
		case secrets.InQuery:
			c.In = intercept.InQuery
		case secrets.InBasic:
			c.In = intercept.InBasic
		}
		if slices.Contains(to.Hosts, host) && v.uses(who, key) {
			allowed = append(allowed, c)
		} else {
			foreign = append(foreign, c)
		}
	}
	return allowed, foreign
}

// uses reports whether a program may use a secret: its plugin's, or its agent's if the plugin
// declares it. The agent's own programs use all, as far as they have been given the placeholders.
func (v *Vault) uses(who bridge.Caller, k secrets.Key) bool {
	return who.Plugin == "" || (k.Plugin == "" || k.Plugin == who.Plugin) && v.declares(who, k.Name) == nil
}

// sender returns what gives the gateway a value for one connection. The audit has the first time.
func (v *Vault) sender(who bridge.Caller, k secrets.Key, host string) func(context.Context) (string, error) {
	var mu sync.Mutex
	noted := false
	return func(ctx context.Context) (string, error) {
		if to, _ := v.Bindings.find(k); !slices.Contains(to.Hosts, host) {
			return "", errors.New("it is no longer bound to this host")
		}
		value, err := v.current(ctx, k)
		mu.Lock()
		defer mu.Unlock()
		if noted && err == nil {
			return value.Reveal(), nil
		}
		entry := audit.Entry{UID: os.Getuid(), Agent: who.Name, Client: gatewayClient, Action: "secret.send", Subject: subject(k.Plugin, k.Name) + " to " + host}
		if _, failed := v.Audit.Record(ctx, entry.Of(err)); failed != nil && err == nil {
			return "", errors.New("the host cannot record it")
		}
		if err != nil {
			return "", forProgram(k.Name, err)
		}
		noted = true
		return value.Reveal(), nil
	}
}

// current returns a value that is about to be sent. It is redacted from then on.
func (v *Vault) current(ctx context.Context, k secrets.Key) (secrets.Value, error) {
	v.open()
	known, looking, _ := v.look(k.Agent)
	v.mu.Lock()
	value := known.values[k]
	v.mu.Unlock()
	if looking == nil && value.Check() == nil { // nobody is asking the store: the value is not older than fresh
		return value, nil
	}
	value, err := v.open().Get(ctx, k)
	if err == nil {
		err = v.learn(k, value)
	}
	return value, err
}

// filter takes an agent's secrets out of a stream. Held text is passed on when the stream pauses.
func (v *Vault) filter(agent config.AgentID, from io.ReadCloser) io.ReadCloser {
	v.open()
	known, _, _ := v.look(agent)
	r, w := io.Pipe()
	go func() { // ends when either end is closed
		output := redact.NewOutput(&known.live)
		_, err := io.Copy(output.Writer(w), from)
		_ = w.CloseWithError(errors.Join(err, output.Close()))
	}()
	return &filtered{r, from}
}

type filtered struct {
	*io.PipeReader
	from io.Closer
}

func (f *filtered) Close() error { return errors.Join(f.PipeReader.Close(), f.from.Close()) }
