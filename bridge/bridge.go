// Package bridge is what programs in the guest may ask of the host: an HTTP API that knows who asks by a token and by the Linux user that has it.
package bridge
