/* Tokens of a quorum: a model for Spin of ballot.go, internal/link/quorum and the scripts vote, raise and epoch.

   Three nodes, of which two are a majority. Each attempt is one acquisition, as ballot.go makes it. At any step a lease may vanish from a
   node (it expired, for whatever clock), and a node may forget everything. Requests are lost by not being made.

   Checked: an attempt that succeeds has a token larger than that of every attempt that had succeeded when it began, and no two have the
   same. Nothing is said about exclusion, which is a matter of time, and of which there is none here.

   What must fail, each with a counterexample, shows that the rules are needed:
     NAIVE       the token is not written back
     NOOWNER     it is written back also where the owner is not inside any more
     ANYSKIP     phase 2 is left out although the majority gave different numbers
     NOREST      a node that forgot votes as soon as it has been told a number
     NOFLOOR     it votes when it has rested, but counts on from nothing
     EARLYFLOOR  it is told the number before its rest, not after
     ONEOTHER    it is told the number by one other node, which is no majority of the others

   make spec checks all of it. ATTEMPTS, EXPIRIES and LOSSES are the bounds. */

#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef EXPIRIES
#define EXPIRIES 2
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#define NODES 3
#define MAJORITY 2
#define max(a, b) ((a) > (b) -> (a) : (b))

byte owner[NODES];          /* who is inside; 0: nobody */
byte count[NODES];          /* the last number of the name */
bool mute[NODES];           /* it has no right to vote */
bool begun[ATTEMPTS + 1];   /* the attempt has begun */
bool over[ATTEMPTS + 1];    /* it has come to its end */
byte token[ATTEMPTS + 1];   /* that it got; 0: none */
byte newest;                /* of all that were got */

proctype Attempt(byte me) {
  byte i, inside, seen, acks, before;
  byte number[NODES];       /* that each node gave; 0: not inside there */
  atomic { before = newest; begun[me] = true }

  /* Phase 1: vote.lua. */
  do
  :: i < NODES ->
     if
     :: atomic { !mute[i] && owner[i] == 0 ->
          owner[i] = me; count[i]++; number[i] = count[i]; inside++; seen = max(seen, count[i]) }
     :: skip
     fi;
     i++
  :: else -> break
  od;

  if
  :: inside >= MAJORITY ->
     if
#ifdef ANYSKIP
     :: true -> acks = MAJORITY
#else
     /* A majority gave the same number: that is the token, whatever a third node said. */
     :: number[0] != 0 && number[0] == number[1] -> seen = number[0]; acks = MAJORITY
     :: number[0] != 0 && number[0] == number[2] -> seen = number[0]; acks = MAJORITY
     :: number[1] != 0 && number[1] == number[2] -> seen = number[1]; acks = MAJORITY
     :: else ->
#ifdef NAIVE
        acks = MAJORITY
#else
        /* Phase 2: raise.lua, wherever it may be inside. */
        i = 0;
        do
        :: i < NODES ->
           if
           :: number[i] != 0 ->
              atomic {
                if
#ifdef NOOWNER
                :: true ->
#else
                :: owner[i] == me ->
#endif
                   count[i] = max(count[i], seen); acks++
                :: else
                fi
              }
           :: true /* the request was lost */
           fi;
           i++
        :: else -> break
        od
#endif
#endif
     fi;
     if
     :: acks >= MAJORITY ->
        atomic {
          assert(seen > before);
          i = 1;
          do
          :: i <= ATTEMPTS -> assert(token[i] != seen); i++
          :: else -> break
          od;
          token[me] = seen; newest = max(newest, seen)
        }
     :: else
     fi
  :: else
  fi;

  /* The end: released, given up, or run out. What it still has at the nodes goes. */
  atomic { over[me] = true; i = 0 }
  do
  :: i < NODES -> atomic { if :: owner[i] == me -> owner[i] = 0 :: else fi }; i++
  :: else -> break
  od
}

/* Leases vanish from nodes. */
proctype Expiry() {
  byte n = EXPIRIES, i;
  do
  :: n > 0 -> n--; select(i : 0 .. NODES - 1); owner[i] = 0
  :: break
  od
}

/* Nodes forget, one after the other: epoch.lua and internal/link/quorum/epochs.go. */
proctype Loss() {
  byte n = LOSSES, lost, i, floor, heard;
  bool votes[ATTEMPTS + 1]; /* attempts that it may have voted for */
  do
  :: n > 0 ->
     n--;
     select(lost : 0 .. NODES - 1);
     atomic {
       owner[lost] = 0; count[lost] = 0; mute[lost] = true;
       i = 1;
       do :: i <= ATTEMPTS -> votes[i] = begun[i] && !over[i]; i++ :: else -> break od
     }
#ifndef EARLYFLOOR
#ifndef NOREST
     /* It rests for as long as any attempt may take that it voted for. */
     i = 1;
     do :: i <= ATTEMPTS -> (!votes[i] || over[i] || token[i] != 0); i++ :: else -> break od;
#endif
#endif
     /* It is told what the others know, one after the other. */
     floor = 0; heard = 0; i = 0;
     do
     :: i < NODES ->
        if
        :: i != lost -> atomic { floor = max(floor, count[i]); heard++ }
        :: else
        fi;
#ifdef ONEOTHER
        if :: heard == 1 -> break :: true fi;
#endif
        i++
     :: else -> break
     od;
#ifdef EARLYFLOOR
     i = 1;
     do :: i <= ATTEMPTS -> (!votes[i] || over[i] || token[i] != 0); i++ :: else -> break od;
#endif
#ifdef NOFLOOR
     floor = 0;
#endif
     atomic { count[lost] = floor; mute[lost] = false }
  :: break
  od
}

init {
  atomic {
    byte k = 1;
    do :: k <= ATTEMPTS -> run Attempt(k); k++ :: else -> break od;
    run Expiry();
    run Loss()
  }
}
