#pragma once
#include <string>
#include <vector>

namespace lockstep::report {

/// Options of `lockstep report`.
struct Options {
  std::vector<std::string> paths;      ///< folders of runs and of scaling studies
  std::string output = "report.html";  ///< the page
};

}  // namespace lockstep::report
