#include <lockstep/train/run/assignment.hpp>

#include <filesystem>
#include <variant>

#include <lockstep/data/files/data_files.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/deck/deck_source.hpp>

namespace lockstep::train {

Assignment read_assignment(const std::string& file, const std::vector<std::string>& overrides,
                           const TaskFactory& make_task,
                           const std::vector<PartFactory>& make_parts) {
  auto deck = Deck::load(file, overrides);
  Assignment assignment{.plan = read_run_plan(deck)};
  assignment.task = make_task(deck);
  for (const PartFactory& make_part : make_parts) assignment.parts.push_back(make_part(deck));
  deck.check_all_read();
  assignment.plan.run.dir = run_folder_of(assignment.plan, file).string();
  deck.record("run", assignment.plan.run);  // in the run folder the deck has another name
  assignment.deck = deck.resolved();
  assignment.hash = deck.hash();
  return assignment;
}

std::vector<std::filesystem::path> files_read_by(const std::string& file, const std::string& deck) {
  std::vector<std::filesystem::path> places{file};
  const auto add = [&](const std::string& path) {
    for (const auto& place : files_of({path})) {
      if (std::filesystem::exists(place)) places.push_back(place);
    }
  };
  const detail::DeckTree tree = detail::load_deck_text(deck, file);
  for (const char* key : {"path", "test_path"}) {
    const detail::DeckValue* value = tree.find("data", key);
    if (!value) continue;
    if (const auto* one = std::get_if<std::string>(&value->data)) add(*one);
    const auto* list = std::get_if<detail::DeckValue::List>(&value->data);
    for (const auto& element : list ? *list : detail::DeckValue::List()) {
      if (const auto* one = std::get_if<std::string>(&element.data)) add(*one);
    }
  }
  return places;
}

std::filesystem::path run_folder_of(const RunPlan& plan, const std::string& file) {
  namespace fs = std::filesystem;
  return plan.run.dir.empty() ? "runs" / fs::path(file).stem() : fs::path(plan.run.dir);
}

}  // namespace lockstep::train
