package tools

import (
	"context"
	"fmt"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

// AskTime is how long a person has to answer.
const AskTime = 10 * time.Minute

// Secrets lets agents use secrets that models need not see.
type Secrets interface {
	Has(ctx context.Context, a Agent, name config.SecretName) (bool, error)
	Set(ctx context.Context, a Agent, name config.SecretName, value secrets.Value) error
	// Ask asks a person for the value and stores it. It fails with UserDenied or Timeout.
	Ask(ctx context.Context, a Agent, name config.SecretName, description, instructions string) error
}

type secretCheckIn struct {
	Key string `json:"key" jsonschema:"the secret's name: OPENAI_API_KEY" limit:"minlen=1"`
}

type secretCheckOut struct {
	Key    string `json:"key"`
	Exists bool   `json:"exists"`
}

// newSecretCheck makes sandbox_secret_check.
func newSecretCheck(store Secrets) Tool {
	return Define(Spec{
		Name: "sandbox_secret_check", Title: "See whether a secret is there", Gate: Exec,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
		Description: `Say whether you have a secret of this name. The value is never shown.`,
	}, func(ctx context.Context, c *Call, in secretCheckIn) (secretCheckOut, error) {
		name, err := secretName(in.Key)
		if err != nil {
			return secretCheckOut{}, err
		}
		exists, err := store.Has(ctx, c.Agent, name)
		return secretCheckOut{in.Key, exists}, err
	})
}

type secretSetIn struct {
	Key          string `json:"key" jsonschema:"the secret's name: OPENAI_API_KEY" limit:"minlen=1"`
	Description  string `json:"description" jsonschema:"its purpose, for the person who is asked"`
	Instructions string `json:"instructions" jsonschema:"where that person finds it"`
	Value        string `json:"value,omitempty" jsonschema:"only if you have it already; without it a person is asked, and you never see it"`
}

type secretSetOut struct {
	Key    string `json:"key"`
	Stored bool   `json:"stored"`
}

// newSecretSet makes sandbox_secret_set.
func newSecretSet(store Secrets) Tool {
	return Define(Spec{
		Name: "sandbox_secret_set", Title: "Store a secret", Gate: Exec, Budget: AskTime, NoCheckpoint: true,
		Hints:       Hints{Destructive: true, Idempotent: true},
		Description: `Store a secret. Without value a person is asked for it, and it is stored without being shown to you. Your programs read it with: osaurus-host secrets get NAME`,
	}, func(ctx context.Context, c *Call, in secretSetIn) (secretSetOut, error) {
		name, err := secretName(in.Key)
		if err != nil {
			return secretSetOut{}, err
		}
		if in.Value == "" {
			c.Say("waiting for a person to give %s", name)
			err = store.Ask(ctx, c.Agent, name, in.Description, in.Instructions)
			refused := fmt.Sprintf("a person was asked for %s and did not give it. Do without it, or say what it is needed for and ask whether to try again", name)
			return secretSetOut{in.Key, err == nil}, explainRefusal(err, refused)
		}
		value, err := secrets.ParseValue(in.Value)
		if err != nil {
			return secretSetOut{}, wrongArgument("value", "text without NUL characters, at most 64 KiB", "the value cannot be kept: %v", err)
		}
		err = store.Set(ctx, c.Agent, name, value)
		return secretSetOut{in.Key, err == nil}, err
	})
}

func secretName(text string) (config.SecretName, error) {
	name, err := config.ParseSecretName(text)
	if err != nil {
		return "", wrongArgument("key", fault.AdviceOf(err), "this is not a name for a secret") // not quoted: it may be the value
	}
	return name, nil
}
