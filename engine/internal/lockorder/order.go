package lockorder

// Lock is a place in Order.
type Lock struct {
	Rank Rank
	Name string // the struct and the field: Store.passes
	// Under is the lock that a goroutine must hold exclusively when it takes several locks of this place; nil means that it never
	// may.
	Under Rank
	// Again lets a goroutine take what it already has. It is for things that are not locks of the engine.
	Again bool
}

// Order is every lock of the engine, in the order in which they are taken. The table in docs/architecture.md says what each lock
// protects and what its holder may wait for; a test compares the two.
var Order = [...]Lock{
	{Rank: StorePasses{}, Name: "Store.passes"},
	{Rank: SetPasses{}, Name: "set.passes"},
	{Rank: SetLoad{}, Name: "set.loadOnce"},
	{Rank: SetLead{}, Name: "set.lead"},
	{Rank: GateMu{}, Name: "rangeGate.mu"},
	{Rank: GateHeld{}, Name: "rangeGate.holds"},
	{Rank: LateSets{}, Name: "lateSets.mu"},
	{Rank: ReaderMu{}, Name: "reader.mu"},
	{Rank: SetViewing{}, Name: "set.viewing", Under: StorePasses{}},
	{Rank: StoreSwapping{}, Name: "Store.swapping"},
	{Rank: StoreDeleting{}, Name: "Store.deleting"},
	{Rank: SwapOne{}, Name: "swapGate.one"},
	{Rank: FiltersLife{}, Name: "Filters.life"},
	{Rank: FiltersTrimming{}, Name: "Filters.trimming"},
	{Rank: SliceFlushing{}, Name: "filterSlice.flushing", Under: FiltersLife{}},
	{Rank: SliceMu{}, Name: "filterSlice.mu", Under: FiltersLife{}},
	{Rank: LogRemoving{}, Name: "Log.removing"},
	{Rank: LogMu{}, Name: "Log.mu"},
	{Rank: DamagesMu{}, Name: "Damages.mu"},
	{Rank: FiltersMu{}, Name: "Filters.mu"},
	{Rank: RingMu{}, Name: "ring.mu"},
	{Rank: ExciserMu{}, Name: "exciser.mu"},
	{Rank: PublisherRounds{}, Name: "publisher.rounds"},
	{Rank: PublisherMu{}, Name: "publisher.mu"},
	{Rank: CacheMu{}, Name: "setCache.mu"},
	{Rank: SetQueue{}, Name: "set.queueMu"},
	{Rank: StoreMoments{}, Name: "Store.moments"},
	{Rank: SetMu{}, Name: "set.mu", Under: StoreMoments{}},
	{Rank: DeadRunsMu{}, Name: "deadRuns.mu"},
	{Rank: RunnerMu{}, Name: "runner.mu"},
	{Rank: RecentMu{}, Name: "recentKeys.mu"},
	{Rank: RequestsMu{}, Name: "requestLog.mu"},
	{Rank: NotesMu{}, Name: "notes.mu"},
	{Rank: IdentityMu{}, Name: "identity.mu"},
	{Rank: PromiseMu{}, Name: "standing.giving"},
	{Rank: DBSync{}, Name: "DB.syncMu"},
	{Rank: SwapMu{}, Name: "swapGate.mu"},
	{Rank: Pebble{}, Name: "Pebble", Again: true},
	{Rank: SchedulerMu{}, Name: "scheduler.mu"},
	{Rank: HoldMu{}, Name: "holdFS.mu"},
	{Rank: HoldNames{}, Name: "holdFS.names"},
	{Rank: RetryMu{}, Name: "retry.mu"},
	{Rank: UnflushedMu{}, Name: "Unflushed.mu"},
	{Rank: HotDotsMu{}, Name: "hotShard.mu"},
}

// Rank is a place in Order.
type Rank interface{ rank() }

// The ranks, in the order of Order.
type (
	StorePasses     struct{ place }
	SetPasses       struct{ place }
	SetLoad         struct{ place }
	SetLead         struct{ place }
	GateMu          struct{ place }
	GateHeld        struct{ place }
	LateSets        struct{ place }
	ReaderMu        struct{ place }
	SetViewing      struct{ place }
	StoreSwapping   struct{ place }
	StoreDeleting   struct{ place }
	SwapOne         struct{ place }
	FiltersLife     struct{ place }
	FiltersTrimming struct{ place }
	SliceFlushing   struct{ place }
	SliceMu         struct{ place }
	LogRemoving     struct{ place }
	LogMu           struct{ place }
	DamagesMu       struct{ place }
	FiltersMu       struct{ place }
	RingMu          struct{ place }
	ExciserMu       struct{ place }
	PublisherRounds struct{ place }
	PublisherMu     struct{ place }
	CacheMu         struct{ place }
	SetQueue        struct{ place }
	StoreMoments    struct{ place }
	SetMu           struct{ place }
	DeadRunsMu      struct{ place }
	RunnerMu        struct{ place }
	RecentMu        struct{ place }
	RequestsMu      struct{ place }
	NotesMu         struct{ place }
	IdentityMu      struct{ place }
	PromiseMu       struct{ place }
	DBSync          struct{ place }
	SwapMu          struct{ place }
	Pebble          struct{ place } // all of Pebble's own locks
	SchedulerMu     struct{ place }
	HoldMu          struct{ place }
	HoldNames       struct{ place }
	RetryMu         struct{ place }
	UnflushedMu     struct{ place }
	HotDotsMu       struct{ place }
)

// place makes a type a Rank.
type place struct{}

func (place) rank() {}
