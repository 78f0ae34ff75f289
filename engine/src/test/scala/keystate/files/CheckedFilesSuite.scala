package keystate.files

import java.io.File
import java.nio.file.Files
import java.nio.file.attribute.FileTime

import org.scalatest.funsuite.AnyFunSuite

class CheckedFilesSuite extends AnyFunSuite {
  private val large = new Array[Byte](2 << 20)

  private def withFile(content: Array[Byte])(body: File => Any): Unit = {
    val file = File.createTempFile("keystate", "test")
    try {
      Files.write(file.toPath, content)
      body(file)
      ()
    } finally {
      file.delete()
      ()
    }
  }

  private def fromNowOn(file: File): Int = CheckedFiles.crc32c(file)(-1)

  test("a file is read once, under any of its names") {
    withFile(large) { file =>
      assert(CheckedFiles.crc32c(file)(7) == 7)
      assert(fromNowOn(file) == 7)
      val name = new File(file.getPath + ".other")
      assert(LocalFolder.link(file.toPath, name.toPath))
      try assert(fromNowOn(name) == 7)
      finally {
        name.delete()
        ()
      }
    }
  }

  test("a file that was written is not read") {
    withFile(large) { file =>
      CheckedFiles.written(file, 8)
      assert(fromNowOn(file) == 8)
    }
  }

  test("a file that was changed, replaced or cut off is read again") {
    val changes = Seq[File => Any](
      file => Files.setLastModifiedTime(file.toPath, FileTime.fromMillis(1)),
      file => Files.write(file.toPath, large.take(large.length - 1)),
      file => {
        val other = new File(file.getPath + ".new")
        Files.write(other.toPath, large)
        other.renameTo(file)
      }
    )
    changes.foreach { change =>
      withFile(large) { file =>
        CheckedFiles.written(file, 9)
        change(file)
        assert(fromNowOn(file) == -1)
      }
    }
  }

  test("a small file is read each time") {
    withFile(new Array[Byte](100)) { file =>
      CheckedFiles.written(file, 10)
      assert(fromNowOn(file) == -1)
    }
  }
}
