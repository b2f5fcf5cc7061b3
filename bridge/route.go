package bridge

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// route is a path, which goes on with a name if it ends in a slash, and what it
// answers to each method.
type route struct {
	path    string
	methods methods
}

type methods map[string]func(*call) error

// routes are all there are.
func routes() []route {
	return []route{
		{wire.PathSecrets, methods{http.MethodGet: getSecret}},
		{wire.PathConfig, methods{http.MethodGet: getConfig, http.MethodPost: setConfig}},
		{wire.PathChat, methods{http.MethodPost: chat}},
		{wire.PathDispatch, methods{http.MethodPost: dispatch}},
		{wire.PathMemoryQuery, methods{http.MethodPost: queryMemory}},
		{wire.PathMemoryStore, methods{http.MethodPost: storeMemory}},
		{wire.PathEmit, methods{http.MethodPost: emit}},
		{wire.PathPlugin, methods{http.MethodPost: createPlugin}},
		{wire.PathLog, methods{http.MethodPost: appendLine}},
		{wire.PathTool, methods{http.MethodPost: callTool}},
	}
}

// find returns the route of a path and the name in it, or an error: NotFound
// where there is no such route.
func find(all []route, u *url.URL) (found route, name string, err error) {
	const op = "find route"
	asked, err := segments(u)
	if err != nil {
		return route{}, "", err
	}
	for _, r := range all {
		path, named := strings.CutSuffix(r.path[1:], "/")
		fixed := strings.Split(path, "/")
		switch {
		case named && len(asked) == len(fixed)+1 && slices.Equal(asked[:len(fixed)], fixed):
			return r, asked[len(fixed)], nil
		case !slices.Equal(asked, fixed):
		case named:
			return route{}, "", fault.Newf(fault.InvalidArgs, op, brief(u.Path), "a name is missing").Advise("Write it after " + r.path)
		default:
			return r, "", nil
		}
	}
	if len(asked) > 1 && asked[0] == "api" && asked[1] == "inference" { // what others' shims expect of it
		return route{}, "", fault.Newf(fault.InvalidArgs, op, brief(u.Path), "it can only chat").Advise("Ask for " + wire.PathChat + ".")
	}
	return route{}, "", fault.New(fault.NotFound, op, brief(u.Path), nil).Advise("There are " + strings.Join(paths(all), ", ") + ".")
}

func paths(all []route) (list []string) {
	for _, r := range all {
		list = append(list, r.path)
	}
	return list
}

// segments are the parts of a path, each percent-decoded once. Empty ones do
// not count, and dots mean nothing.
func segments(u *url.URL) ([]string, error) {
	var parts []string
	for part := range strings.SplitSeq(u.EscapedPath(), "/") {
		if part == "" {
			continue
		}
		text, err := url.PathUnescape(part)
		if err != nil {
			return nil, fault.New(fault.InvalidArgs, "read path", brief(part), err)
		}
		parts = append(parts, text)
	}
	return parts, nil
}
