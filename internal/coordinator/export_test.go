package coordinator

// Feeds counts the feeds that are kept.
func (c *Coordinator) Feeds() int {
	c.feeds.mu.Lock()
	defer c.feeds.mu.Unlock()
	return len(c.feeds.byJob)
}
