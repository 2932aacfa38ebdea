# lockstep_embed(FILE): writes a source that holds the page of `lockstep report`
# (apps/lockstep/report/page.*) and dygraphs, which draws its charts (MIT licence). Without dygraphs
# its texts are empty, and the command says so.
find_path(LOCKSTEP_DYGRAPHS dygraph.min.js PATHS /usr/share/javascript/dygraphs
  DOC "Folder of dygraph.min.js and dygraph.min.css, for the charts of `lockstep report`")
if(NOT LOCKSTEP_DYGRAPHS OR NOT EXISTS ${LOCKSTEP_DYGRAPHS}/dygraph.min.css)
  message(STATUS "dygraphs was not found (Debian: libjs-dygraphs): `lockstep report` will write no page")
endif()

function(lockstep_embed file)
  set(source ${PROJECT_SOURCE_DIR}/apps/lockstep/report)
  set(text "#include \"${source}/embedded.hpp\"\nnamespace lockstep::report::embedded {\n")
  foreach(name page.html page.css page.js dygraph.min.css dygraph.min.js)
    set(from ${source}/${name})
    if(name MATCHES dygraph)
      set(from ${LOCKSTEP_DYGRAPHS}/${name})
    endif()
    set(content "")
    if(EXISTS ${from})
      file(READ ${from} content)
      # Nothing is loaded beside the page.
      string(REGEX REPLACE "/[/*]# sourceMappingURL=[^\n]*" "" content "${content}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
    endif()
    string(REGEX REPLACE "[.]min" "" variable ${name})
    string(REPLACE "." "_" variable ${variable})
    string(APPEND text "const std::string_view ${variable} = R\"embedded(${content})embedded\";\n")
  endforeach()
  string(APPEND text "}  // namespace lockstep::report::embedded\n")
  file(WRITE ${file}.new "${text}")
  file(COPY_FILE ${file}.new ${file} ONLY_IF_DIFFERENT)
endfunction()
