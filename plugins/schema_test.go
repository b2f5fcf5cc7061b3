package plugins

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSchemaLimits checks that the schema has the limits and patterns of Parse.
func TestSchemaLimits(t *testing.T) {
	var schema any
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	const (
		tool      = "tools.items.properties."
		subscribe = "events.properties.subscribe."
		timeout   = subscribe + "items.anyOf.1.properties.timeout."
	)
	for path, want := range map[string]any{
		"name.maxLength": 64, "version.maxLength": MaxText, "author.maxLength": MaxText, "source.maxLength": MaxText, "description.maxLength": MaxDescription,
		"setup.maxLength": MaxCommand, "dependencies.maxItems": MaxList, "dependencies.items.maxLength": MaxText, "dependencies.items.pattern": dependencyText,
		"files.maxProperties": MaxFiles, "files.propertyNames.maxLength": MaxPath, "files.additionalProperties.maxLength": MaxFile,
		"secrets.maxItems": MaxList, "permissions.properties.network.anyOf.0.maxLength": MaxList * (maxDomain + 1),
		"permissions.properties.network.anyOf.1.maxItems": MaxList, "permissions.properties.network.anyOf.1.items.maxLength": maxDomain,
		"daemon.properties.command.maxLength": MaxCommand, "daemon.properties.env.maxProperties": MaxList,
		"daemon.properties.env.propertyNames.pattern": variableText, "daemon.properties.env.propertyNames.maxLength": MaxText,
		"daemon.properties.env.additionalProperties.maxLength": MaxCommand, "events.properties.emit.maxItems": MaxList,
		subscribe + "maxItems": MaxList, subscribe + "items.anyOf.1.properties.run.maxLength": MaxCommand,
		timeout + "maximum": int(MaxTimeout / time.Second), timeout + "default": int(DefaultTimeout / time.Second),
		"tools.maxItems": MaxTools, tool + "id.pattern": toolText, tool + "id.maxLength": usualToolName, tool + "run.maxLength": MaxCommand,
		tool + "description.maxLength": MaxDescription, tool + "timeout.maximum": int(MaxTimeout / time.Second), tool + "timeout.default": int(DefaultTimeout / time.Second),
		tool + "parameters.maxProperties": MaxParams, tool + "parameters.propertyNames.pattern": paramText, tool + "parameters.propertyNames.maxLength": usualToolName,
		tool + "parameters.additionalProperties.properties.description.maxLength": MaxDescription,
		tool + "parameters.additionalProperties.properties.enum.maxItems":         MaxList,
		tool + "parameters.additionalProperties.properties.type.enum":             []ParamType{String, Number, Integer, Boolean, Array, Object},
	} {
		at := schema
		for key := range strings.SplitSeq("properties."+path, ".") {
			switch v := at.(type) {
			case map[string]any:
				at = v[key]
			case []any:
				at = v[key[0]-'0']
			}
		}
		if n, ok := at.(float64); ok {
			at = int(n)
		}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", path, at, want)
		}
	}
}
