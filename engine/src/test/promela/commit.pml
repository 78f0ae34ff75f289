/* The protocol by which drivers commit micro-batches, fence each other and rescale, with checkpoint
 * format v2. It is that of CheckpointOwner, QueryRescaling and Spark's MicroBatchExecution, with each
 * request to the storage as one step. Files of state have names of their own and never change, so
 * the ids in the commit log stand for what their files have.
 *
 * DRIVERS start at any time, with any number of partitions, and each may die before any of its
 * steps. At the end, when they are dead or done, one more driver starts alone.
 *
 * The mutations, each of which must be found: NEVER_LOOKS, REPLACES_ENTRIES, TRUSTS_OFFSET_LOG,
 * KEEPS_IDS, SKIPS_PENDING, TAKES_OTHER_INPUT.
 */
#ifndef DRIVERS
#define DRIVERS 2
#endif
#define BATCHES 3
#define MOST 2     /* partitions */
#define NONE 99
#define BASE (DRIVERS + 2)

/* The storage. */
byte owners;                      /* the files _keystate/owners/1 to this one are there */
byte input[BATCHES];              /* the offset log: what a batch reads; 0 is no entry */
byte pinned[BATCHES];             /* the offset log: the number of partitions */
byte ids[BATCHES];                /* the commit log: how many ids there are; 0 is no entry */
byte content[BATCHES * MOST];     /* what the files of these ids have: a digit for each batch's input */

/* What only the checks know. */
byte committed[BATCHES];          /* the content that was committed first */
byte planned[BATCHES];            /* the input that was logged first */
byte ended;                       /* drivers that are dead or done */
bool dies[DRIVERS + 1];

#define before(b) (b == 0 -> 0 : committed[b - 1])

/* A list of a log. */
#define last(log) (log[2] != 0 -> 2 : (log[1] != 0 -> 1 : (log[0] != 0 -> 0 : NONE)))

/* Looks whether there is an owner after this one. */
inline look() {
#ifndef NEVER_LOOKS
  if
  :: owners > me -> goto over
  :: else
  fi
#else
  skip
#endif
}

/* A look counts for 200 ms at the beginning of a batch. */
inline lookAtBegin() {
  if
  :: look()
  :: skip
  fi
}

/* Every version that was committed reads back, whatever a rescale has made of its ids. */
inline checkCommitted() {
  assert(ids[0] == 0 || content[0] == committed[0]);
  assert(ids[0] < 2 || content[1] == committed[0]);
  assert(ids[1] == 0 || content[2] == committed[1]);
  assert(ids[1] < 2 || content[3] == committed[1]);
  assert(ids[2] == 0 || content[4] == committed[2]);
  assert(ids[2] < 2 || content[5] == committed[2])
}

proctype Driver(byte id; bool alone) {
  byte me, partitions, wanted, current, latest, commit, entry, pinnedLast, pinnedCommit, batch, reads;
  byte base[MOST];
  byte after;    /* batches that it committed after another driver had come */

  {
    if
    :: wanted = 0    /* as many as the state has */
    :: wanted = 1
    :: wanted = 2
    fi;

    /* Takes the checkpoint: lists the owners, then creates a file that nobody has. */
    me = owners + 1;
    do
    :: atomic { owners < me -> owners = me; break }
    :: atomic { owners >= me -> me++ }
    od;

    /* Rescales. */
    latest = last(input);
    if
    :: latest == NONE -> partitions = (wanted == 0 -> 1 : wanted)
    :: else ->
      commit = last(ids);
      d_step {
        pinnedLast = pinned[latest];
        entry = (commit == NONE || commit >= latest -> latest : commit);
        pinnedCommit = pinned[entry]
      };
#ifdef TRUSTS_OFFSET_LOG
      current = pinnedLast;
#else
      current = (commit == NONE -> pinnedLast : ids[commit]);
#endif
      partitions = (wanted == 0 -> current : wanted);
      if
      :: commit != NONE && current != partitions ->
#ifndef KEEPS_IDS
        /* The new files list those of the old partitions. */
        base[0] = content[commit * MOST];
        base[1] = (current == 1 -> base[0] : content[commit * MOST + 1]);
        look();
        d_step {
          ids[commit] = partitions;
          content[commit * MOST] = base[0];
          content[commit * MOST + 1] = (partitions == 1 -> 0 : base[1]);
          checkCommitted()
        }
#else
        skip
#endif
      :: else
      fi;
      if
      :: current != partitions || pinnedLast != partitions || pinnedCommit != partitions ->
        if
        :: entry != latest ->
          look();
          pinned[entry] = partitions
        :: else
        fi;
        look();
        pinned[latest] = partitions
      :: else
      fi
    fi;

    /* Finds the micro-batch with which it goes on. */
    latest = last(input);
    commit = last(ids);
    batch = (latest == NONE -> 0 : (latest == commit -> latest + 1 : latest));
#ifdef SKIPS_PENDING
    batch = (latest == NONE || latest == commit -> batch : latest + 1);
#endif
    if
    :: batch == 0
    :: batch > 0 ->
      d_step { current = ids[batch - 1] };
      if
      :: current != partitions -> goto over    /* another driver's commit came since */
      :: else
      fi;
      d_step {
        base[0] = content[(batch - 1) * MOST];
        base[1] = content[(batch - 1) * MOST + 1]
      }
    fi;

    do
    :: batch == BATCHES -> break
    :: else ->
      if
      :: input[batch] == 0 ->
        lookAtBegin();
        atomic {
          if
#ifndef REPLACES_ENTRIES
          :: input[batch] != 0 -> goto over    /* the entry is there */
#endif
          :: else ->
            input[batch] = id;
            pinned[batch] = partitions;
            assert(planned[batch] == 0 || planned[batch] == id);
            planned[batch] = id
          fi
        }
      :: else
      fi;
      lookAtBegin();
      if
      :: pinned[batch] != partitions -> goto over
      :: else
      fi;
#ifdef TAKES_OTHER_INPUT
      reads = id;
#else
      reads = input[batch];
#endif

      /* Its tasks write files that only this commit names. */
      d_step {
        base[0] = base[0] * BASE + reads;
        base[1] = (partitions == 1 -> 0 : base[1] * BASE + reads)
      };
      look();
      atomic {
        if
#ifndef REPLACES_ENTRIES
        :: ids[batch] != 0 -> goto over    /* another driver has committed it */
#endif
        :: else ->
          ids[batch] = partitions;
          content[batch * MOST] = base[0];
          content[batch * MOST + 1] = base[1];
          if
          :: committed[batch] == 0 ->
            committed[batch] = base[0];
            /* It goes on from what was committed, with the input that the log has. */
            assert(base[0] == before(batch) * BASE + planned[batch])
          :: else
          fi;
          checkCommitted();
          if
          :: owners > me ->
            after++;
            assert(after <= 1)
          :: else
          fi
        fi
      };
      batch++
    od;
over:
    assert(!alone || batch == BATCHES);    /* once the others are gone, a start gets through */
    ended++
  } unless {
    atomic { dies[id - 1] -> ended++ }
  }
}

active proctype Deaths() {
  byte i;
  for (i : 0 .. DRIVERS - 1) {
    if
    :: dies[i] = true
    :: skip
    fi
  }
}

init {
  byte i;
  atomic {
    for (i : 1 .. DRIVERS) { run Driver(i, false) }
  }
  ended == DRIVERS;
  run Driver(DRIVERS + 1, true)
}
