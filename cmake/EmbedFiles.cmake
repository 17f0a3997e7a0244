# cmake -DROOT=DIR -DLIST=FILE -DOUT=FILE.cpp -P EmbedFiles.cmake
# Writes OUT: the files that LIST names, one a line relative to ROOT, as strings
# (see passes/Codegen/EmbeddedFiles.h). A name after "+ " goes into all bundles.
file(STRINGS ${LIST} lines)
set(text "#include \"passes/Codegen/EmbeddedFiles.h\"\n\n")
string(APPEND text "const ciuic::codegen::EmbeddedFile ")
string(APPEND text "ciuic::codegen::embeddedFiles[] = {\n")
foreach(line IN LISTS lines)
  set(always false)
  if(line MATCHES "^\\+ (.*)$")
    set(line "${CMAKE_MATCH_1}")
    set(always true)
  endif()
  file(READ "${ROOT}/${line}" content)
  string(APPEND text
    "{\"${line}\", R\"ciuic(${content})ciuic\", ${always}},\n")
endforeach()
string(APPEND text "{}};\n")
file(WRITE ${OUT} "${text}")
