package bridge

import (
	"errors"
	"net/http"
	"strings"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const opPlugin = "ask for plugin"

// plugin notes for which plugin the caller asks: the one that the guest says it is of, or
// else the name space that it says itself. Who only says that it is a plugin which the agent
// has is the agent, and learns why where the difference matters.
func (c *call) plugin(known config.PluginID) {
	said, err := said(c.r.Header)
	switch {
	case known != "" && err == nil && said != known:
		c.who.Plugin = known
		c.pluginErr = fault.New(fault.Rejected, opPlugin, string(said), errors.New("it is asked by a program of the plugin "+string(known))).
			Advise("A plugin's programs have its own secrets and settings, and no other plugin's.")
	case known != "":
		c.who.Plugin = known
	case err != nil:
		c.pluginErr = err
	case c.server.installed(c.who.Agent, said):
		c.pluginErr = fault.Newf(fault.Rejected, opPlugin, string(said), "it is not asked by a program of that plugin").
			Advise("Only the plugin's own tools, handlers and daemon can. In its folder, set OSAURUS_PLUGIN to another name to ask as the agent.")
	default:
		c.who.Plugin = said
	}
}

// present refuses the programs of a plugin that is gone: what it may is not known any more.
func (c *call) present(known config.PluginID) error {
	if known == "" || c.server.installed(c.who.Agent, known) {
		return nil
	}
	return fault.Newf(fault.Rejected, opPlugin, string(known), "the agent does not have it any more").Advise("Install it again.")
}

func (s *Server) installed(agent config.AgentID, plugin config.PluginID) bool {
	return s.Services.Plugins != nil && s.Services.Plugins.Installed(agent, plugin)
}

// said is the name space that a program says it works in. Others' shims send the
// name of the working directory where they have none.
func said(h http.Header) (config.PluginID, error) {
	const advice = "Send the header " + wire.HeaderPlugin + " with the plugin's id, once."
	values := h.Values(wire.HeaderPlugin)
	if len(values) != 1 || strings.TrimSpace(values[0]) == "" {
		return "", fault.Newf(fault.InvalidArgs, "read plugin id", "", "there is none, or more than one").Advise(advice)
	}
	return config.ParsePluginID(strings.ToLower(strings.TrimSpace(values[0])))
}
