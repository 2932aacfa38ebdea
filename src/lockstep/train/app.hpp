#pragma once
#include <string>
#include <vector>

#include <lockstep/train/task/task.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

/// The whole life of a training program: MPI, command line, deck, launch checks, run folder,
/// training, report, exit code. Only App prints in Lockstep, and ends the job when one rank fails
/// without the others' knowledge. Ranks are the processes of an MPI job or, with
/// --ranks-as-threads, threads of this process. Each thread makes a task of its own, so the factory
/// and the tasks run concurrently.
///   int main(int argc, char** argv) {
///     return lockstep::train::App("classify", "Trains an image classifier.", [](lockstep::Deck&
///     deck) {
///       return std::make_unique<lockstep::train::Classification>(deck);
///     }).run(argc, argv);
///   }
class App {
 public:
  App(std::string name, std::string description, TaskFactory make_task);

  /// Adds a training part to this program (docs/guide/write_an_app.md), after the existing ones.
  /// Each rank makes its own. Returns this App.
  App& add_part(PartFactory make_part);

  /// Returns the ExitCode for main(). All processes of the job must call it.
  int run(int argc, char** argv);

 private:
  std::string name_, description_;
  TaskFactory make_task_;
  std::vector<PartFactory> make_parts_;
};

}  // namespace lockstep::train
