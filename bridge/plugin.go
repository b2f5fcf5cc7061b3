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

// identifyPlugin sets the caller's plugin to the one that the guest vouches for, or else the one
// in the header. A program that only claims to belong to an installed plugin counts as the agent;
// routes that need the plugin refuse it.
func (c *call) identifyPlugin(vouched config.PluginID) {
	claimed, err := claimedPlugin(c.r.Header)
	switch {
	case vouched != "" && err == nil && claimed != vouched:
		c.who.Plugin = vouched
		c.pluginErr = fault.New(fault.Rejected, opPlugin, string(claimed), errors.New("it is asked by a program of the plugin "+string(vouched))).
			Advise("A plugin's programs can use only the secrets and settings of that plugin.")
	case vouched != "":
		c.who.Plugin = vouched
	case err != nil:
		c.pluginErr = err
	case c.server.installed(c.who.Agent, claimed):
		c.pluginErr = fault.Newf(fault.Rejected, opPlugin, string(claimed), "it is not asked by a program of that plugin").
			Advise("Only the plugin's own tools, handlers and daemon can. To ask as the agent, set OSAURUS_PLUGIN to another name.")
	default:
		c.who.Plugin = claimed
	}
}

// checkInstalled refuses programs of a plugin that has been removed.
func (c *call) checkInstalled(vouched config.PluginID) error {
	if vouched == "" || c.server.installed(c.who.Agent, vouched) {
		return nil
	}
	return fault.Newf(fault.Rejected, opPlugin, string(vouched), "the agent no longer has it").Advise("Install it again.")
}

func (s *Server) installed(agent config.AgentID, plugin config.PluginID) bool {
	return s.Services.Plugins.Installed(agent, plugin)
}

// claimedPlugin returns the plugin in the header. Some libraries send the name of the working directory.
func claimedPlugin(h http.Header) (config.PluginID, error) {
	const advice = "Send the header " + wire.HeaderPlugin + " with the plugin's id, once."
	values := h.Values(wire.HeaderPlugin)
	if len(values) != 1 || strings.TrimSpace(values[0]) == "" {
		return "", fault.Newf(fault.InvalidArgs, "read plugin id", "", "there is none, or more than one").Advise(advice)
	}
	return config.ParsePluginID(strings.ToLower(strings.TrimSpace(values[0])))
}
