//go:build soak

package mrkdwn

func init() { documents = 100_000 }
