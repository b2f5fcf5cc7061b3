package bridge

import (
	"fmt"
	"strings"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// MaxSessionKey is the longest name of a conversation outside; longer ones
// are no names.
const MaxSessionKey = 512

// dispatch takes a task for the caller's own agent.
func dispatch(c *call) error {
	const op = "dispatch task"
	var in wire.Dispatch
	if err := c.members(&in, "task"); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(in.Task) == "":
		return fault.Newf(fault.InvalidArgs, op, "", "it is empty").Advise("Say what is to be done.")
	case len(in.ExternalSessionKey) > MaxSessionKey:
		return fault.Newf(fault.InvalidArgs, op, "external_session_key", "it is too long").Advise(fmt.Sprintf("Use one of at most %d bytes.", MaxSessionKey))
	case in.AgentID != "" && !strings.EqualFold(in.AgentID, string(c.who.Agent)):
		err := fault.Newf(fault.Rejected, op, "", "it is for another agent").Advise("Programs can only give tasks to their own agent.")
		if c.accept(ofMisdirected) == nil { // nothing leaves the audit: who is refused all day does not fill it
			c.record(DispatchTask, brief(in.AgentID), err)
		}
		return err
	}
	service := c.server.Services.Tasks
	if service == nil {
		return absent("tasks")
	}
	if err := c.accept(ofDispatch); err != nil {
		return err
	}
	id, err := service.Dispatch(c.r.Context(), c.who, in.Task, in.ExternalSessionKey)
	c.record(DispatchTask, string(id), err)
	if err != nil {
		return err
	}
	return c.answer(wire.Dispatched{TaskID: string(id)})
}

func queryMemory(c *call) error {
	var in wire.Query
	if err := c.members(&in, "query"); err != nil {
		return err
	}
	if err := c.memory(); err != nil {
		return err
	}
	facts, err := c.server.Services.Memory.Query(c.r.Context(), c.who, in.Query)
	if err != nil {
		return err
	}
	return c.answer(wire.Results{Results: append([]Fact{}, facts...)}) // none are [] and not null
}

func storeMemory(c *call) error {
	var in wire.Store
	if err := c.members(&in, "content"); err != nil {
		return err
	}
	if strings.TrimSpace(in.Content) == "" {
		return fault.Newf(fault.InvalidArgs, "store in memory", "", "it is empty").Advise("Say what is to be remembered.")
	}
	if err := c.memory(); err != nil {
		return err
	}
	if err := c.server.Services.Memory.Store(c.r.Context(), c.who, in.Content); err != nil {
		return err
	}
	return c.answer(empty{})
}

// memory accepts a request to the memory.
func (c *call) memory() error {
	if c.server.Services.Memory == nil {
		return absent("memory")
	}
	return c.accept(ofMemory)
}
