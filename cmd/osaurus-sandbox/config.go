package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/policy"
)

func newConfig() *cobra.Command {
	return noun("config", newConfigShow(), newConfigGet(), newConfigSet())
}

func newConfigShow() *cobra.Command {
	return command("show", func(ctx context.Context, c *call) error {
		home, settings, err := loadSettings()
		if err != nil {
			return err
		}
		fmt.Fprintln(c.err, home.SettingsFile())
		return printJSON(c.out, settings)
	}, alwaysJSON)
}

func newConfigGet() *cobra.Command {
	return command("get KEY", func(ctx context.Context, c *call) error {
		_, settings, err := loadSettings()
		if err != nil {
			return err
		}
		text, err := json.Marshal(settings)
		if err != nil {
			return err
		}
		var values map[string]json.RawMessage
		if err := json.Unmarshal(text, &values); err != nil {
			return err
		}
		value, ok := values[c.args[0]]
		if !ok {
			return fault.Newf(fault.InvalidArgs, "get", c.args[0], "no such setting").Advise("Keys: " + strings.Join(config.Keys(), ", ") + ".")
		}
		var plain string
		if !c.json && json.Unmarshal(value, &plain) == nil {
			_, err = fmt.Fprintln(c.out, plain)
		} else {
			_, err = fmt.Fprintln(c.out, string(value))
		}
		return err
	}, describe(config.Describe()))
}

func newConfigSet() *cobra.Command {
	return command("set KEY=VALUE...", func(ctx context.Context, c *call) error {
		texts, err := assignments(c.args)
		if err != nil {
			return err
		}
		home, err := config.FindHome()
		if err != nil {
			return err
		}
		changed, err := setSettings(ctx, home, texts)
		return replyChanged(c, changed, err, config.EffectOf)
	}, describe(config.Describe()))
}

// setSettings changes settings through the daemon, or in the file if none runs.
func setSettings(ctx context.Context, home config.Home, texts map[string]string) ([]string, error) {
	client, err := greet(ctx, home, clientName)
	switch {
	case err == nil:
		defer client.Close()
		r, err := client.SetConfig(ctx, &controlpb.SetConfigRequest{Settings: texts})
		return changedKeys(r.GetChanged()), err
	case fault.KindOf(err) != fault.Unavailable:
		return nil, err
	}
	var before, after config.Settings
	err = config.Edit(home, func(f *config.File) error {
		before = f.Settings()
		for _, key := range slices.Sorted(maps.Keys(texts)) { // writes new keys in a stable order
			if err := f.Set(key, texts[key]); err != nil {
				return err
			}
		}
		after = f.Settings()
		return cmp.Or(policy.CheckSets(after.NetworkRules), control.Vacant(before.MCP.Listen, after.MCP.Listen))
	})
	if err != nil {
		return nil, err
	}
	return before.Differences(after), nil
}

func changedKeys(settings []*controlpb.Setting) (keys []string) {
	for _, s := range settings {
		keys = append(keys, s.Key)
	}
	return keys
}

// replyChanged prints when each changed setting takes effect.
func replyChanged(c *call, keys []string, err error, of func(string) config.Effect) error {
	changed := map[string]config.Effect{}
	for _, key := range keys {
		changed[key] = of(key)
	}
	return reply(c, changed, err, func(w io.Writer, changed map[string]config.Effect) error {
		for _, key := range slices.Sorted(maps.Keys(changed)) {
			when := "at once"
			if changed[key] == config.NextStart {
				when = "at the next start"
			}
			if err := writef(w, "%s takes effect %s\n", key, when); err != nil {
				return err
			}
		}
		return nil
	})
}

// loadSettings returns the home and its settings.
func loadSettings() (config.Home, config.Settings, error) {
	home, err := config.FindHome()
	if err != nil {
		return "", config.Settings{}, err
	}
	f, err := config.Load(home.SettingsFile())
	if err != nil {
		return "", config.Settings{}, err
	}
	return home, f.Settings(), nil
}
