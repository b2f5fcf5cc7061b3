package toolhost

import (
	"context"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/prompts"
	"osaurus-sandbox/tools"
)

// keys implements tools.Secrets with the vault and prompts.
type keys struct{ Options }

func key(a tools.Agent, name config.SecretName) secrets.Key {
	return secrets.Key{Agent: a.ID, Name: name}
}

func (k keys) Has(ctx context.Context, a tools.Agent, name config.SecretName) (bool, error) {
	list, err := k.Vault.Names(ctx, a.ID)
	return slices.Contains(list, key(a, name)), err
}

func (k keys) Set(ctx context.Context, a tools.Agent, name config.SecretName, value secrets.Value) error {
	return k.Vault.Set(ctx, key(a, name), value)
}

func (k keys) Ask(ctx context.Context, a tools.Agent, name config.SecretName, description, instructions string) error {
	text := strings.TrimSpace(description + "\n" + instructions)
	_, err := k.Prompts.Ask(ctx, prompts.Question{Secret: key(a, name), Name: a.Name, Text: text, Wait: tools.AskTime}, by)
	return err
}
