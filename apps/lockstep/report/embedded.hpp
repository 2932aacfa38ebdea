#pragma once
// Files that are compiled into the program (apps/CMakeLists.txt).
#include <string_view>

namespace lockstep::report::embedded {

extern const std::string_view page_html, page_css, page_js;
/// Of dygraphs, MIT licence; empty if it was not found.
extern const std::string_view dygraph_css, dygraph_js;

}  // namespace lockstep::report::embedded
