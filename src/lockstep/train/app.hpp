#pragma once
#include <string>
#include <vector>

#include <lockstep/train/task/task.hpp>
#include <lockstep/train/training_part.hpp>

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

  /// Every training of this program has one more part (docs/guide/write_an_app.md), behind those
  /// that are there: each rank makes its own. Returns this App.
  App& add_part(PartFactory make_part);

  /// What main() returns: an ExitCode. All processes of the job must call it.
  int run(int argc, char** argv);

 private:
  std::string name_, description_;
  TaskFactory make_task_;
  std::vector<PartFactory> make_parts_;
};

}  // namespace lockstep::train
