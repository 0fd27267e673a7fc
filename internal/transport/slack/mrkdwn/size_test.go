//go:build !soak

package mrkdwn

// documents is how many random documents a run takes.
const documents = 2000
