package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// withSecrets has the daemon that runs see to the secrets of an agent, so that each change is
// in the audit and what it writes is freed of them at once. Without one, or where the store is
// closed to the daemon and may not be to this program (a passphrase can be typed here), it is
// done here. The daemon is asked for their names before, which are in no store that is closed
// to it: what it refuses to change after that is not for this program to change.
func withSecrets(ctx context.Context, c console, agent config.AgentID, byDaemon func(*control.Client, []*controlpb.SecretKey) error, here func(secrets.Store) error) error {
	client, err := reach(ctx)
	if err == nil {
		defer client.Close()
		var r *controlpb.ListSecretsResponse
		if r, err = client.Secrets.List(ctx, &controlpb.ListSecretsRequest{Agent: string(agent)}); err == nil {
			return byDaemon(client, r.Keys)
		}
	}
	if fault.KindOf(err) != fault.Unavailable {
		return err
	}
	store, err := secretStore(c)
	if err != nil {
		return err
	}
	return here(store)
}

func setSecret(ctx context.Context, c console, k secrets.Key, v secrets.Value) error {
	return withSecrets(ctx, c, k.Agent, func(client *control.Client, _ []*controlpb.SecretKey) error {
		_, err := client.Secrets.Set(ctx, &controlpb.SetSecretRequest{
			Agent: string(k.Agent), Plugin: string(k.Plugin), Name: string(k.Name), Value: v.Reveal(),
		})
		return err
	}, func(store secrets.Store) error { return store.Set(ctx, k, v) })
}

func deleteSecret(ctx context.Context, c console, k secrets.Key) error {
	return withSecrets(ctx, c, k.Agent, func(client *control.Client, _ []*controlpb.SecretKey) error {
		_, err := client.Secrets.Delete(ctx, &controlpb.DeleteSecretRequest{
			Agent: string(k.Agent), Plugin: string(k.Plugin), Name: string(k.Name),
		})
		return err
	}, func(store secrets.Store) error { return store.Delete(ctx, k) })
}

func listSecrets(ctx context.Context, c console, agent config.AgentID) (keys []secrets.Key, err error) {
	err = withSecrets(ctx, c, agent, func(_ *control.Client, list []*controlpb.SecretKey) error {
		keys = make([]secrets.Key, len(list))
		for i, k := range list {
			keys[i] = secrets.Key{Agent: config.AgentID(k.Agent), Plugin: config.PluginID(k.Plugin), Name: config.SecretName(k.Name)}
		}
		return nil
	}, func(store secrets.Store) (err error) {
		keys, err = store.List(ctx, agent)
		return err
	})
	return keys, err
}

func newSecretAsk(c console) *cobra.Command {
	var plugin, text string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "ask AGENT NAME",
		Short: "Ask a person for a secret, and wait for the answer",
		Long: `Asks with a prompt, which can be answered from any terminal (osaurus-sandbox prompt answer) or app. The exit code is 4 if the answer
is no, and 5 if nobody answers.`,
		Example: `  osaurus-sandbox secret ask alice OPENAI_API_KEY --text "for the nightly report"`,
		RunE: withClient(func(cmd *cobra.Command, client *control.Client, args []string) error {
			k, err := secretKey(cmd.Context(), args, plugin)
			if err != nil {
				return err
			}
			request := &controlpb.AskSecretRequest{Agent: string(k.Agent), Plugin: string(k.Plugin), Name: string(k.Name), Text: text}
			if timeout != 0 {
				request.Timeout = durationpb.New(timeout)
			}
			_, err = client.Secrets.Ask(cmd.Context(), request)
			return replyKey(cmd, "kept", args[0], k, err)
		}),
	}
	pluginFlag(cmd, &plugin)
	cmd.Flags().StringVar(&text, "text", "", "what it is for")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait no longer than this, as in 90s (default 5m)")
	return withJSON(cmd)
}
