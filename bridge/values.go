package bridge

import (
	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
)

// empty is the answer where there is nothing to say but that it is done.
type empty struct{}

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
	if err := c.accept(ofSecrets); err != nil {
		return err
	}
	value, err := service.Get(c.r.Context(), c.who, name)
	if err != nil {
		return err
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
	return key, c.accept(ofConfig)
}
