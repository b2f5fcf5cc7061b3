package bridge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// MaxSessionKey bounds a task's external session key in bytes.
const MaxSessionKey = 512

// empty is an answer without content.
type empty struct{}

// use checks that a service exists and counts the call against its limit.
func (c *call) use(exists bool, service string, of config.BridgeCalls) error {
	if !exists {
		return fault.Newf(fault.Unavailable, "ask the bridge for", service, "this host does not offer it").Advise("Do without it: only the person at the host can change that.")
	}
	return c.accept(of)
}

func getSecret(c *call) error {
	name, err := config.ParseSecretName(c.name)
	if err == nil {
		err = c.pluginErr
	}
	service := c.server.Services.Secrets
	if err == nil {
		err = c.use(service != nil, "secrets", config.SecretCalls)
	}
	if err != nil {
		return err
	}
	value, err := service.Get(c.r.Context(), c.who, name)
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
		err = c.use(c.server.Services.Config != nil, "config", config.ConfigCalls)
	}
	return key, err
}

func dispatchTask(c *call) error {
	const op = "dispatch task"
	var in wire.Dispatch
	if err := c.decode(&in, "task"); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(in.Task) == "":
		return fault.Newf(fault.InvalidArgs, op, "", "it is empty").Advise("Say what is to be done.")
	case len(in.ExternalSessionKey) > MaxSessionKey:
		return fault.Newf(fault.InvalidArgs, op, "external_session_key", "it is too long").Advise(fmt.Sprintf("Use at most %d bytes.", MaxSessionKey))
	case in.AgentID != "" && !strings.EqualFold(in.AgentID, string(c.who.Agent)):
		err := fault.Newf(fault.Rejected, op, "", "it is for another agent").Advise("Programs can only give tasks to their own agent.")
		if _, ok := c.account.strays.Take(c.server.Limits()[config.DispatchCalls]); ok { // refused calls must not fill the audit log
			c.record(DispatchTask, brief(in.AgentID), err)
		}
		return err
	}
	service := c.server.Services.Tasks
	if err := c.use(service != nil, "tasks", config.DispatchCalls); err != nil {
		return err
	}
	id, err := service.Dispatch(c.r.Context(), c.who, in.Task, in.ExternalSessionKey)
	c.record(DispatchTask, string(id), err)
	return c.answer(wire.Dispatched{TaskID: string(id)}, err)
}

func queryMemory(c *call) error {
	var in wire.Query
	if err := c.decode(&in, "query"); err != nil {
		return err
	}
	service := c.server.Services.Memory
	if err := c.use(service != nil, "memory", config.MemoryCalls); err != nil {
		return err
	}
	facts, err := service.Query(c.r.Context(), c.who, in.Query)
	return c.answer(wire.Results{Results: append([]Fact{}, facts...)}, err) // [] instead of null
}

func storeMemory(c *call) error {
	var in wire.Store
	if err := c.decode(&in, "content"); err != nil {
		return err
	}
	if strings.TrimSpace(in.Content) == "" {
		return fault.Newf(fault.InvalidArgs, "store in memory", "", "it is empty").Advise("Say what is to be remembered.")
	}
	service := c.server.Services.Memory
	if err := c.use(service != nil, "memory", config.MemoryCalls); err != nil {
		return err
	}
	return c.answer(empty{}, service.Store(c.r.Context(), c.who, in.Content))
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
	if len(in.Payload) == 0 {
		in.Payload = json.RawMessage("{}")
	}
	var payload bytes.Buffer
	if err := json.Compact(&payload, in.Payload); err != nil {
		return err
	}
	service := c.server.Services.Events
	if err := c.use(service != nil, "events", config.HTTPCalls); err != nil {
		return err
	}
	return c.answer(empty{}, service.Emit(c.r.Context(), c.who, topic, payload.Bytes()))
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
	service := c.server.Services.Log
	if err := c.use(service != nil, "log", config.LogCalls); err != nil {
		return err
	}
	return c.answer(empty{}, service.Append(c.r.Context(), c.who, level, in.Message))
}
