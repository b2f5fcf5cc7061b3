package bridge

import (
	"context"
	"errors"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/fault"
)

// empty is the answer where there is nothing to say but that it is done.
type empty struct{}

// getSecret tells a secret, if that can be recorded.
func getSecret(c *call) error {
	name, err := config.ParseSecretName(c.name)
	if err != nil {
		return err
	}
	if c.pluginErr != nil {
		return c.pluginErr
	}
	service := c.server.Services.Secrets
	if service == nil {
		return absent("secrets")
	}
	if err := c.account.secrets.take(); err != nil {
		return limited(err)
	}
	value, err := service.Get(c.r.Context(), c.who, name)
	recorded := c.record(ReadSecret, string(name), err)
	if err != nil {
		return err
	}
	if recorded != nil {
		return fault.New(fault.Unavailable, "tell secret", string(name), errors.New("it cannot be recorded who asked for it"))
	}
	return c.answer(wire.Value{Value: value.Reveal()})
}

func getConfig(c *call) error {
	key, err := c.configKey()
	if err != nil {
		return err
	}
	value, err := c.server.Services.Config.Get(c.r.Context(), c.who, key)
	if err != nil {
		return err
	}
	return c.answer(wire.Value{Value: value})
}

func setConfig(c *call) error {
	var in wire.Value
	if err := c.members(&in, "value"); err != nil {
		return err
	}
	key, err := c.configKey()
	if err != nil {
		return err
	}
	if err := c.server.Services.Config.Set(c.r.Context(), c.who, key, in.Value); err != nil {
		return err
	}
	return c.answer(empty{})
}

// configKey is the key that is asked for, of a request that is accepted.
func (c *call) configKey() (ConfigKey, error) {
	key, err := ParseConfigKey(c.name)
	switch {
	case err != nil:
		return "", err
	case c.pluginErr != nil:
		return "", c.pluginErr
	case c.server.Services.Config == nil:
		return "", absent("config")
	}
	if err := c.account.config.take(); err != nil {
		return "", limited(err)
	}
	return key, nil
}

// record notes a call in the audit, also of a program that has left.
func (c *call) record(action Action, subject string, err error) error {
	return c.server.Audit.Record(context.WithoutCancel(c.r.Context()), c.who, action, subject, err)
}
