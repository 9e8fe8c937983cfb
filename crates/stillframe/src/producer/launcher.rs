//! The program that started the ranks of an MPI program, and what it told this one.

/// The variables in which launchers say rank and number of ranks: Open MPI, whatever speaks PMI (MPICH, Intel MPI, Hydra), MVAPICH,
/// Slurm. In a batch script, which is no rank, Slurm says how many processes a step may have, and not that the script is one of them:
/// so the number is that of the step.
const VARIABLES: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
];

/// Rank and number of ranks of this process, if a launcher started it with others.
pub(crate) fn rank_and_ranks() -> Option<(u32, u32)> {
    find(|name| std::env::var(name).ok())
}

fn find(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    let number = |name| variable(name)?.trim().parse::<u32>().ok();
    let mut told = VARIABLES.iter().filter_map(|(rank, ranks)| Some((number(rank)?, number(ranks)?)));
    told.find(|(rank, ranks)| *ranks > 1 && rank < ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(environment: &[(&str, &str)]) -> Option<(u32, u32)> {
        find(|name| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn every_launcher_is_understood() {
        for (rank, ranks) in VARIABLES {
            assert_eq!(found(&[(rank, "3"), (ranks, "4")]), Some((3, 4)), "{rank}");
        }
    }

    #[test]
    fn who_is_alone_is_no_rank() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        // A shell of the job, and a number that makes no sense.
        assert_eq!(found(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), None);
        assert_eq!(found(&[("PMI_RANK", "4"), ("PMI_SIZE", "4")]), None);
        assert_eq!(found(&[("PMI_RANK", "one"), ("PMI_SIZE", "4")]), None);
    }

    #[test]
    fn a_program_of_one_process_in_a_step_of_many_is_a_rank_of_the_step() {
        let step = [("PMI_RANK", "0"), ("PMI_SIZE", "1"), ("SLURM_PROCID", "2"), ("SLURM_STEP_NUM_TASKS", "8")];
        assert_eq!(found(&step), Some((2, 8)));
    }
}
