#pragma once

namespace lockstep::train {

/// Throws Error with a sentence where `ulimit -v` leaves this process less address space than its
/// libraries and the threads of `ranks` ranks take before a model is made: those end a process in
/// ways of their own when they get none (SIGSEGV, abort, a hang at exit). What is above that, and
/// is too little for a model, is std::bad_alloc. For programs, first of all.
void expect_address_space(int ranks);

/// Throws InputError with a sentence where `ulimit -f` leaves this process smaller files than MPI
/// makes in the node's memory when it begins: it ends the process there in ways of its own (abort,
/// SIGBUS). For programs that call MPI, before MPI_Init.
void expect_file_size();

/// Raises `ulimit -n` of this process as far as it may, to 65,536 at most: each file of a data set
/// stays open. For programs, first of all.
void raise_open_files_limit() noexcept;

}  // namespace lockstep::train
