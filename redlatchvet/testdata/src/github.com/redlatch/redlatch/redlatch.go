// Package redlatch stands for the library: what the analyzer asks of its types.
package redlatch

import (
	"context"
	"errors"
)

var ErrTaken, ErrNotHeld = errors.New("taken"), errors.New("not held")

type Client struct{}

func (c *Client) Mutex(name string) *Mutex               { return nil }
func (c *Client) SlotPool(name string, n int) *SlotPool  { return nil }
func (c *Client) MultiMutex(names ...string) *MultiMutex { return nil }
func (c *Client) Election(name string) *Election         { return nil }

func (c *Client) Adopt(ctx context.Context, text string) (*Lease, error) { return nil, nil }

type Mutex struct{}

func (m *Mutex) Lock(ctx context.Context) (*Lease, error)    { return nil, nil }
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return nil, nil }

type SlotPool struct{}

func (p *SlotPool) Acquire(ctx context.Context) (*Slot, error) { return nil, nil }

type MultiMutex struct{}

func (m *MultiMutex) Lock(ctx context.Context) (*MultiLease, error) { return nil, nil }

type Election struct{}

func (e *Election) Campaign(ctx context.Context, value string) (*Lease, error) { return nil, nil }

type Lease struct{}

func (l *Lease) Context() context.Context          { return nil }
func (l *Lease) Err() error                        { return nil }
func (l *Lease) Extend(ctx context.Context) error  { return nil }
func (l *Lease) Token() int64                      { return 0 }
func (l *Lease) Held() bool                        { return false }
func (l *Lease) Release(ctx context.Context) error { return nil }

type Slot struct{ *Lease }

func (s *Slot) ID() (int, error) { return 0, nil }

type MultiLease struct{}

func (l *MultiLease) Err() error                        { return nil }
func (l *MultiLease) Held() bool                        { return false }
func (l *MultiLease) Token(name string) int64           { return 0 }
func (l *MultiLease) Release(ctx context.Context) error { return nil }

type TakenError struct{}

func (e *TakenError) Error() string { return "" }

func (l *Lease) Remaining() int64 { return 0 }
