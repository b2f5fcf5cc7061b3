package plugins

import (
	"time"

	"osaurus-sandbox/internal/printable"
)

// SchemaURL names the schema.
const SchemaURL = "https://json-schema.org/draft/2020-12/schema"

// Schema returns the JSON Schema of a recipe, for editors. Parse checks more, such as hidden
// characters and defaults that are not among the choices.
func Schema() ([]byte, error) { return printable.Document(recipeSchema()) }

// schema is a JSON Schema. encoding/json sorts its keys.
type schema map[string]any

// about adds a description.
func (s schema) about(text string) schema {
	s["description"] = text
	return s
}

func text(max int) schema { return schema{"type": "string", "maxLength": max} }

func matching(pattern string, max int) schema {
	s := text(max)
	s["pattern"] = pattern
	return s
}

func listOf(of schema, most int) schema {
	return schema{"type": "array", "items": of, "maxItems": most}
}

// mapOf describes an object whose keys match a schema.
func mapOf(keys, values schema, most int) schema {
	return schema{"type": "object", "propertyNames": keys, "additionalProperties": values, "maxProperties": most}
}

func objectOf(required []string, properties map[string]schema) schema {
	s := schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func recipeSchema() schema {
	s := objectOf([]string{"name", "description"}, map[string]schema{
		"name": matching(`^[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9])?$`, 64).about("The plugin's name. In lower case, with dashes for spaces, it is the plugin's id."),
		"description": matching(`\S`, MaxDescription).
			about("What the plugin is for."),
		"version": text(MaxText).about("The author's version; the library numbers revisions itself."),
		"author":  text(MaxText),
		"source":  text(MaxText).about("The address of its home page."),
		"dependencies": listOf(matching(dependencyText.String(), MaxText), MaxList).
			about("Packages of the guest's distribution, with an optional version."),
		"setup": text(MaxCommand).about("A shell command that runs once as the agent, in the plugin's folder, after packages and files are installed."),
		"files": mapOf(matching(`^[^/].*$`, MaxPath), text(MaxFile), MaxFiles).
			about("Text files by their paths in the plugin's folder."),
		"tools":   listOf(toolSchema(), MaxTools).about("Commands that a model can call."),
		"secrets": listOf(matching(`^[A-Za-z_][A-Za-z0-9_]*$`, 128), MaxList).about("The secrets that the plugin may read."),
		"permissions": objectOf(nil, map[string]schema{
			"network": {"description": "\"outbound\", \"none\", or exact host names, as a list or separated by commas.",
				"anyOf": []schema{text(MaxList * (maxDomain + 1)), listOf(text(maxDomain), MaxList)}},
			"inference": {"type": "boolean", "description": "Whether it may ask models."},
		}),
		"daemon": objectOf([]string{"command"}, map[string]schema{
			"command": matching(`\S`, MaxCommand),
			"env":     mapOf(matching(variableText.String(), MaxText), text(MaxCommand), MaxList),
		}).about("A shell command that runs as long as the plugin is installed."),
		"events": objectOf(nil, map[string]schema{
			"subscribe": listOf(schema{"anyOf": []schema{topicSchema(), objectOf([]string{"topic"}, map[string]schema{
				"topic": topicSchema(), "run": text(MaxCommand), "timeout": timeoutSchema(),
			})}}, MaxList).about("Commands that run for each event of a topic, with its payload on standard input."),
			"emit": listOf(topicSchema(), MaxList).about("Topics that it may emit."),
		}),
		"metadata":   {"type": "object", "description": "Not interpreted. Unknown keys of the recipe are kept here."},
		"modifiedAt": {"type": "string", "format": "date-time", "description": "When the library last changed it."},
	})
	s["$schema"], s["title"] = SchemaURL, "A plugin of Osaurus Sandbox"
	return s
}

func topicSchema() schema { return matching(`^(\*|[A-Za-z0-9_][A-Za-z0-9._:-]*\*?)$`, 129) }

func timeoutSchema() schema {
	return schema{"type": "integer", "minimum": 0, "maximum": int(MaxTimeout / time.Second), "default": int(DefaultTimeout / time.Second), "description": "How long it may run, in seconds."}
}

func toolSchema() schema {
	scalar := schema{"type": []string{"string", "number", "boolean"}}
	param := objectOf([]string{"type"}, map[string]schema{
		"type":        {"enum": []ParamType{String, Number, Integer, Boolean, Array, Object}},
		"description": text(MaxDescription),
		"default":     scalar,
		"enum":        listOf(scalar, MaxList),
		"required":    {"type": "boolean", "description": "Whether it is required. By default, it is unless it has a default value."},
	})
	return objectOf([]string{"id", "description", "run"}, map[string]schema{
		"id":          matching(toolText.String(), usualToolName),
		"description": matching(`\S`, MaxDescription).about("What the tool does, and when to use it: a model chooses by it."),
		"parameters":  mapOf(matching(paramText.String(), usualToolName), param, MaxParams).about("Arguments by name. Each is an environment variable: file is $PARAM_FILE."),
		"run":         matching(`\S`, MaxCommand).about("A shell command that runs as the agent, in the plugin's folder."),
		"timeout":     timeoutSchema(),
		"output":      {"enum": []string{"text", "json"}, "default": "text", "description": "json: it prints one JSON value."},
	})
}
