#pragma once
#include <string>

#include <lockstep/train/task.hpp>

namespace lockstep::train {

/// The whole life of a training program: MPI, command line, deck, launch checks, run folder,
/// training, report, exit code. It alone in Lockstep prints, and ends the job when one rank fails
/// where the others cannot know. Ranks are the processes of an MPI job, or, with
/// --ranks-as-threads, threads of this process: each then makes a task of its own, and calls the
/// factory and its task while others do.
///   int main(int argc, char** argv) {
///     return lockstep::train::App("classify", "Trains an image classifier.", [](lockstep::Deck&
///     deck) {
///       return std::make_unique<lockstep::train::Classification>(deck);
///     }).run(argc, argv);
///   }
class App {
 public:
  App(std::string name, std::string description, TaskFactory make_task);

  /// What main() returns: an ExitCode. All processes of the job must call it.
  int run(int argc, char** argv);

 private:
  std::string name_, description_;
  TaskFactory make_task_;
};

}  // namespace lockstep::train
