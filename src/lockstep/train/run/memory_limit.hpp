#pragma once

namespace lockstep::train {

/// Throws Error if `ulimit -v` leaves this process less address space than its libraries and the
/// threads of `ranks` ranks take before a model is made. These would otherwise end the process
/// (SIGSEGV, abort, a hang at exit). A limit above that but too small for a model gives
/// std::bad_alloc. Call first in a program.
void expect_address_space(int ranks);

/// Throws InputError if `ulimit -f` is smaller than the files that MPI makes in the node's memory
/// at its start; MPI would end the process (abort, SIGBUS). Call before MPI_Init.
void expect_file_size();

/// Raises `ulimit -n` of this process as far as allowed, to at most 65,536: each file of a data set
/// stays open. Call first in a program.
void raise_open_files_limit() noexcept;

}  // namespace lockstep::train
