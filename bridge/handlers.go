package bridge

import (
	"cmp"
	"strings"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// empty is an answer without content.
type empty struct{}

func getSecret(c *call) error {
	name, err := config.ParseSecretName(c.name)
	if err == nil {
		err = c.pluginErr
	}
	if err == nil {
		err = c.accept(config.SecretCalls)
	}
	if err != nil {
		return err
	}
	value, err := c.server.Services.Secrets.Get(c.r.Context(), c.who, name)
	return c.answer(wire.Value{Value: value.Reveal()}, err)
}

func getConfig(c *call) error {
	key, err := c.configKey()
	if err != nil {
		return err
	}
	value, err := c.server.Services.Config.Get(c.r.Context(), c.who, key)
	return c.answer(wire.Value{Value: value}, err)
}

func setConfig(c *call) error {
	var in wire.Value
	if err := c.decode(&in, "value"); err != nil {
		return err
	}
	key, err := c.configKey()
	if err != nil {
		return err
	}
	return c.answer(empty{}, c.server.Services.Config.Set(c.r.Context(), c.who, key, in.Value))
}

// configKey returns the key in the path, and counts the call.
func (c *call) configKey() (ConfigKey, error) {
	key, err := ParseConfigKey(c.name)
	if err == nil {
		err = c.pluginErr
	}
	if err == nil {
		err = c.accept(config.ConfigCalls)
	}
	return key, err
}

func dispatchTask(c *call) error {
	var in wire.Dispatch
	if err := c.decode(&in, "task"); err != nil {
		return err
	}
	if in.AgentID != "" && !strings.EqualFold(in.AgentID, string(c.who.Agent)) {
		err := fault.Newf(fault.Rejected, "dispatch task", "", "it is for another agent").Advise("Programs can only give tasks to their own agent.")
		if _, ok := c.account.strays.Take(c.server.Limits()[config.DispatchCalls]); ok { // refused calls must not fill the audit log
			c.record(DispatchTask, brief(in.AgentID), err)
		}
		return err
	}
	if err := c.accept(config.DispatchCalls); err != nil {
		return err
	}
	id, err := c.server.Services.Tasks.Dispatch(c.r.Context(), c.who, in.Task, in.ExternalSessionKey)
	c.record(DispatchTask, string(id), err)
	return c.answer(wire.Dispatched{TaskID: string(id)}, err)
}

func queryMemory(c *call) error {
	var in wire.Query
	if err := c.decode(&in, "query"); err != nil {
		return err
	}
	if err := c.accept(config.MemoryCalls); err != nil {
		return err
	}
	facts, err := c.server.Services.Memory.Query(c.r.Context(), c.who, in.Query)
	return c.answer(wire.Results{Results: append([]Fact{}, facts...)}, err) // [] instead of null
}

func storeMemory(c *call) error {
	var in wire.Store
	if err := c.decode(&in, "content"); err != nil {
		return err
	}
	if err := c.accept(config.MemoryCalls); err != nil {
		return err
	}
	return c.answer(empty{}, c.server.Services.Memory.Store(c.r.Context(), c.who, in.Content))
}

func emit(c *call) error {
	var in wire.Emit
	if err := c.decode(&in, "type"); err != nil {
		return err
	}
	topic, err := ParseTopic(in.Type)
	if err != nil {
		return err
	}
	if err := c.accept(config.HTTPCalls); err != nil {
		return err
	}
	return c.answer(empty{}, c.server.Services.Events.Emit(c.r.Context(), c.who, topic, in.Payload))
}

func appendLine(c *call) error {
	var in wire.Line
	if err := c.decode(&in, "message"); err != nil {
		return err
	}
	level, err := ParseLevel(strings.ToLower(cmp.Or(in.Level, string(Info))))
	if err != nil {
		return err
	}
	if err := c.accept(config.LogCalls); err != nil {
		return err
	}
	return c.answer(empty{}, c.server.Services.Log.Append(c.r.Context(), c.who, level, in.Message))
}
