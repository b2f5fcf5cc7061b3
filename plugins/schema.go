package plugins

import _ "embed" // for the schema

// Schema is the JSON Schema of a recipe, for editors. Parse checks more, such as hidden characters and
// defaults that are not among the choices.
//
//go:embed plugin.schema.json
var Schema []byte
