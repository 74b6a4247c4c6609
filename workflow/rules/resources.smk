# Threads, memory and run time of jobs, from the size of their data sets.
MEGABYTES_PER_THREAD = 64
FEWEST_THREADS = 2
MEGABYTES_READ_IN_A_MINUTE = 600  # from a file system that many share


def on_cluster():
    """Whether jobs run elsewhere, or this is such a job. Known when jobs are planned, not before."""
    return workflow.non_local_exec or workflow.remote_exec


def data_mb(input):
    """Return the megabytes of the prepared data set on disk; 0 until it is prepared."""
    return sum(path.stat().st_size for path in Path(input.meta).parent.rglob("*.npy")) / 2**20


def cores(wildcards, input):
    """Return the threads of a timed job: here all, so that nothing else runs; on a cluster, by the size of its data."""
    if not on_cluster():
        return ALL_CORES
    return min(max(FEWEST_THREADS, round(data_mb(input) / MEGABYTES_PER_THREAD)), ALL_CORES)


def by_size(base, per_megabyte):
    """mem_mb or runtime of a job: a base and so much per megabyte of data, doubled with every further attempt."""

    def amount(wildcards, input, attempt):
        return int((base + per_megabyte * data_mb(input)) * 2 ** (attempt - 1))

    return amount


def memory_of_training(wildcards, input, attempt):
    """mem_mb of a job that trains: estimated from the data size, within the limit of one training and its parent."""
    most = config["memory_mb"] + 500
    return int(min((1500 + 12 * data_mb(input)) * 2 ** (attempt - 1), most) if on_cluster() else most)


def minutes_of(trainings):
    """Return the runtime of a job with a number of limited trainings: their limits, and the time to read the data."""

    def runtime(wildcards, input):
        count = trainings(wildcards) if callable(trainings) else trainings
        return int(count * (config["minutes"] + data_mb(input) / MEGABYTES_READ_IN_A_MINUTE)) + 10

    return runtime
